"""`stepwatch silence`: begun, listed, expired, audited; also in a real Alertmanager."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.collector.store import Store
from tests.cli.response import alertmanager
from tests.collector.made import JOB
from tests.ports import free_port

Capture = pytest.CaptureFixture[str]
WORDS = ["--for", "2h", "--why", "new firmware", "--by", "ada"]


def silences(place: str) -> list[Any]:
    store = Store(f"sqlite:///{place}")
    stored_silences = store.silences.between(0.0, 9e9)
    store.close()
    return stored_silences


def test_a_silence_is_begun_listed_and_expired(place: str, capsys: Capture) -> None:
    assert main(["silence", JOB, *WORDS, "--store", place]) == OK
    output = capsys.readouterr().out
    (stored,) = silences(place)
    assert output.startswith(f"silence {stored.id} of job {JOB}: no pages until ")
    assert (stored.job, stored.why, stored.by, stored.until - stored.since) == (
        JOB,
        WORDS[3],
        "ada",
        7200.0,
    )
    assert main(["silence", "--list", "--store", place]) == OK
    table = capsys.readouterr().out.splitlines()
    assert table[1].split() == [stored.id, "job", JOB, "2h", "ada", "new", "firmware"]
    assert max(map(len, table)) <= 80
    assert main(["silence", "--expire", stored.id, "--by", "bob", "--store", place]) == OK
    assert capsys.readouterr().out.rstrip().endswith("by bob")
    assert [silence.expired_by for silence in silences(place)] == ["bob"]
    assert main(["silence", "--list", "--store", place]) == OK
    assert capsys.readouterr().out == "no silence is in force\n"


def test_a_kind_is_known_by_its_name_and_programs_read_json(place: str, capsys: Capture) -> None:
    assert main(["silence", "hang", *WORDS, "--json", "--store", place]) == OK
    silence = json.loads(capsys.readouterr().out)
    assert (silence["job"], silence["node"], silence["kind"]) == ("", "", "hang")
    assert main(["silence", "--list", "--json", "--store", place]) == OK
    assert json.loads(capsys.readouterr().out) == [silence]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", *WORDS], "neither a job, a node nor a kind here; pass --job, --node"),
        ([JOB, "--for", "2h"], "needs --for TIME and --why TEXT"),
        ([JOB, "--for", "soon", "--why", "x"], "must be a time such as 90s"),
        ([JOB, "--for", "0h", "--why", "x"], "must be a time such as 90s"),
        ([JOB, "--node", "n", *WORDS], "as --job, --node or --kind beside"),
        ([], "name a job, node or kind, or pass --list"),
        (["--list", "--expire", "x"], "name a job, node or kind, or pass --list"),
    ],
)
def test_wrong_use_is_one_line(place: str, words: list[str], message: str, capsys: Capture) -> None:
    assert main(["silence", *words, "--store", place]) == USAGE
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert silences(place) == []


def test_what_the_collector_refuses_is_one_line(place: str, capsys: Capture) -> None:
    assert main(["silence", JOB, *WORDS, "--for", "90d", "--store", place]) == PROBLEM
    assert "a silence lasts from one second to 30 days" in capsys.readouterr().err
    assert main(["silence", "--expire", "nobody", "--store", place]) == PROBLEM
    error = capsys.readouterr().err
    assert error.startswith("stepwatch: silences/nobody: no such silence; ") and "--list" in error


def test_a_node_is_known_by_an_incident_on_it(place: str, capsys: Capture) -> None:
    """Also where it has no agent that reports for it."""
    assert main(["silence", "node-0", *WORDS, "--store", place]) == OK
    assert "of node node-0: no pages until" in capsys.readouterr().out


def test_who_looks_at_an_incident_sees_that_it_is_silenced(place: str, capsys: Capture) -> None:
    assert main(["silence", JOB, *WORDS, "--store", place]) == OK
    for words in (["diagnose", JOB], ["incidents"], ["incidents", "--state", "open"]):
        capsys.readouterr()
        assert main([*words, "--store", place]) == PROBLEM
        shown = " ".join(capsys.readouterr().out.split())
        assert "silenced by ada until " in shown and ": new firmware" in shown


def test_one_that_is_ended_here_alone_is_said_to_be_left_there(
    place: str, tmp_path: Path, capsys: Capture
) -> None:
    with alertmanager.running(tmp_path) as real:
        options = ["--alertmanager", real.url, "--store", place]
        assert main(["silence", "--node", "gpu-01", *WORDS, *options]) == OK
        assert "name no node: there, silence the job, too" in capsys.readouterr().out
        (stored,) = silences(place)
        assert main(["silence", "--expire", stored.id, "--store", place]) == OK
        output = capsys.readouterr().out
        assert f"it is still in Alertmanager, as {stored.alertmanager}" in output
        assert f"stepwatch silence --expire {stored.id} --alertmanager URL" in output
        assert main(["silence", "--expire", stored.id, *options]) == OK
        assert "still in Alertmanager" not in capsys.readouterr().out
        assert [entry["status"]["state"] for entry in real.get("silences")] == ["expired"]


def test_it_is_written_to_alertmanager_and_ended_there(
    place: str, tmp_path: Path, capsys: Capture
) -> None:
    with alertmanager.running(tmp_path) as real:
        options = ["--alertmanager", real.url, "--store", place]
        assert main(["silence", "--job", JOB, "--kind", "straggler", *WORDS, *options]) == OK
        assert "no pages here and in Alertmanager until" in capsys.readouterr().out
        (stored,) = silences(place)
        (posted,) = real.get("silences")
        assert posted["id"] == stored.alertmanager and posted["status"]["state"] == "active"
        assert (posted["createdBy"], posted["comment"]) == ("ada", "new firmware")
        matchers = {matcher["name"]: matcher["value"] for matcher in posted["matchers"]}
        assert matchers == {"job_name": JOB, "alertname": "TrainingStraggler"}
        assert main(["silence", "--expire", stored.id, *options]) == OK
        assert real.get("silences")[0]["status"]["state"] == "expired"
        assert main(["silence", "--expire", stored.id, *options]) == OK, "once more changes nothing"


def test_what_the_collector_refuses_is_not_left_in_alertmanager(place: str, tmp_path: Path) -> None:
    with alertmanager.running(tmp_path) as real:
        options = ["--alertmanager", real.url, "--store", place]
        assert main(["silence", "--job", JOB, *WORDS, "--for", "90d", *options]) == PROBLEM
        assert [entry["status"]["state"] for entry in real.get("silences")] == ["expired"]
    assert silences(place) == []


def test_without_alertmanager_nothing_is_begun(place: str, capsys: Capture) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    options = ["--alertmanager", nowhere, "--store", place]
    assert main(["silence", "--job", JOB, *WORDS, *options]) == PROBLEM
    assert f"no Alertmanager answers at {nowhere}" in capsys.readouterr().err
    assert silences(place) == []
