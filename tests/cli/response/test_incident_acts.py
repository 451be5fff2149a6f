"""`stepwatch incidents ack | mitigate | comment | assign | reopen`: said, kept, shown."""

from __future__ import annotations

import json

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.collector.store import Store

Capture = pytest.CaptureFixture[str]


def only(place: str, capsys: Capture) -> str:
    """Id of the only incident."""
    assert main(["incidents", "--json", "--store", place]) == PROBLEM
    (incident,) = json.loads(capsys.readouterr().out)
    return str(incident["id"])


def test_what_people_do_is_shown_and_changes_no_state(place: str, capsys: Capture) -> None:
    identity = only(place, capsys)
    for words in (
        ["ack", identity],
        ["assign", identity, "bob"],
        ["comment", identity, "disk ordered"],
        ["mitigate", identity, "drained"],
    ):
        assert main(["incidents", *words, "--by", "ada", "--store", place]) == OK
    output = " ".join(capsys.readouterr().out.split())
    assert f"incident {identity}: open, acknowledged by ada" in output and "owner bob" in output
    assert main(["incidents", "--store", place]) == PROBLEM, "it still happens"
    listed = capsys.readouterr().out
    assert "acknowledged by ada" in listed and "OPEN" in listed
    assert main(["incidents", "--id", identity, "--store", place]) == PROBLEM
    detail = capsys.readouterr().out
    assert "comment by ada: disk ordered" in detail and "mitigated by ada: drained" in detail
    assert main(["incidents", "reopen", identity, "--by", "bob", "--store", place]) == OK
    assert capsys.readouterr().out == f"incident {identity}: open, owner bob, reopened by bob\n"
    store = Store(f"sqlite:///{place}")
    (notes,) = store.notes.of_incidents([identity]).values()
    assert [(note.event, note.by) for note in notes][-1] == ("reopened", "bob") and len(notes) == 5
    store.close()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["ack"], USAGE, "name the incident: stepwatch incidents ack ID"),
        (["ack", "../etc"], USAGE, "incident '../etc' must be"),
        (["ack", "nobody"], PROBLEM, "there is no incident"),
        (["comment", "nobody"], PROBLEM, "text is missing: the comment, or who owns it"),
        (["resolve", "nobody"], USAGE, "its detector resolves it"),
        (["akc", "nobody"], USAGE, "did you mean 'ack'?"),
        (["nobody"], PROBLEM, "there is no incident 'nobody'; `stepwatch incidents` lists"),
    ],
)
def test_wrong_use_is_one_line(
    place: str, words: list[str], code: int, message: str, capsys: Capture
) -> None:
    assert main(["incidents", *words, "--store", place]) == code
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
