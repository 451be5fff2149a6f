"""No text that a record, a note or a silence holds acts on the reader of any verb."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatch.cli.main import main
from stepwatch.cli.verbs import report
from stepwatch.cli.verbs.checklist import LISTS
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.records import Kind, LifecycleEvent, text_bytes
from tests.collector.made import EPOCH, JOB

from .faces import Elements, cells, markdown_elements, obeyed
from .planted import FIELDS, PAYLOADS, TOGETHER, WORDS, incidents, payload

Planted = Callable[[str], Path]
Run = Callable[..., str]
ONE_BY_ONE = [pytest.param(name, marks=pytest.mark.matrix) for name in PAYLOADS]
LONG = pytest.mark.long(
    "tests/cli/hostile/test_verbs.py::test_a_terminal_obeys_nothing_that_any_verb_prints",
    "tests/cli/hostile/test_verbs.py::test_json_stays_json_and_keeps_the_texts",
    "tests/cli/hostile/test_verbs.py::test_markdown_gets_no_element",
)
OTHER_ORDER = [pytest.param(name, marks=LONG) for name in TOGETHER[1:]]
EACH = pytest.mark.parametrize("name", [TOGETHER[0], *OTHER_ORDER, *ONE_BY_ONE])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a verb; what it printed, to stdout and stderr."""
    monkeypatch.setattr(report, "_now_s", lambda: int(EPOCH) + 100)

    def printed(*words: str) -> str:
        main(list(words))
        output = capsys.readouterr()
        return output.out + output.err

    return printed


def screens(place: Path) -> Iterator[list[str]]:
    """Command lines that show what the store holds."""
    yield from (["status"], ["status", JOB], ["incidents"], ["diagnose", JOB])
    yield from (["slo"], ["slo", JOB], ["nodes"], ["nodes", "node-0"], ["silence", "--list"])
    yield from (["compare", JOB, JOB], ["report"], ["report", "--job", JOB])
    yield from (["checklist", name] for name in LISTS)
    for identity, runbook in incidents(place):
        yield ["incidents", "--id", identity]
        yield ["postmortem", identity]
        yield ["runbook", runbook, "--incident", identity]


@EACH
def test_a_terminal_obeys_nothing_that_any_verb_prints(
    name: str, planted: Planted, run: Run
) -> None:
    place = planted(name)
    printed = {tuple(words): run(*words, "--store", str(place)) for words in screens(place)}
    assert {words: obeyed(text) for words, text in printed.items() if obeyed(text)} == {}
    assert all("\n# heading" not in text for text in printed.values()), "it makes no line"
    output = "\n".join(printed.values())
    seen_tags = {tag for tag in (*FIELDS.values(), *WORDS.values()) if tag in output}
    assert len(seen_tags) >= 15, (
        f"of the texts only {seen_tags} are on any screen: this shows nothing"
    )


@EACH
def test_json_stays_json_and_keeps_the_texts(name: str, planted: Planted, run: Run) -> None:
    place = planted(name)
    for words in screens(place):
        text = run(*words, "--store", str(place), "--json")
        assert obeyed(text) == set(), words
        json.loads(text)
    document = json.loads(run("incidents", "--store", str(place), "--json"))
    planted_text = payload(name, FIELDS[Kind.LIFECYCLE, "text"], 56)
    assert any(planted_text in incident["summary"] for incident in document)


@EACH
def test_markdown_gets_no_element(name: str, planted: Planted, run: Run, tmp_path: Path) -> None:
    place = planted(name)
    texts = [run("report", "--store", str(place))]
    for number, (identity, runbook) in enumerate(incidents(place)):
        file = tmp_path / f"{number}.md"
        run("postmortem", identity, "--store", str(place), "--out", str(file))
        texts.append(file.read_text(encoding="utf-8"))
        texts.append(run("runbook", runbook, "--incident", identity, "--store", str(place)))
    assert sum("Z" in text for text in texts) >= 3
    for text in texts:
        assert markdown_elements(text).active() == set() == obeyed(text)
        assert cells(text) == set()


@EACH
def test_html_gets_no_element(name: str, planted: Planted, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    for more in ([], ["--json"]):
        run("report", "--store", str(planted(name)), "--html", str(file), *more)
        html = file.read_text(encoding="utf-8")
        assert "Wo" in html, "a text of the job is in it"
        assert (Elements(html).active(), obeyed(html)) == (set(), set())


@EACH
def test_a_run_that_somebody_sends_is_no_more_than_text(
    name: str, planted: Planted, run: Run, tmp_path: Path
) -> None:
    file, store = tmp_path / "run.json", str(planted(name))
    run("compare", JOB, "--save", str(file), "--store", store)
    saved_run = json.loads(file.read_text(encoding="utf-8"))
    saved_run["job"] = saved_run["job_class"] = saved_run["state"] = payload(name, "Zj")
    saved_run["facts"] = {f"config.{payload(name, 'Yn')}": payload(name, "Yw")}
    file.write_text(json.dumps(saved_run), encoding="utf-8")
    text = run("compare", str(file), JOB, "--store", store)
    assert [tag for tag in ("Zj", "Yn", "Yw") if tag not in text] == []
    assert obeyed(text) == set() and "\n# heading" not in text


@EACH
def test_a_ring_is_no_more_than_text(name: str, run: Run, tmp_path: Path) -> None:
    hostile = payload(name, "Zr")
    identity = Identity("job", 0, 0, 1, hostile[:64], 1, 7, 16, job_class=hostile[:32])
    ring = RingWriter(tmp_path / "0", identity)
    ring.write(Kind.LIFECYCLE, 3, 1, LifecycleEvent.FAILURE, 3, text_bytes(hostile, 56))
    ring.close()
    text = run("blackbox", str(tmp_path))
    assert "failed" in text and "Zr" in text and obeyed(text) == set()
    assert obeyed(run("blackbox", str(tmp_path), "--json")) == set()


@EACH
def test_what_a_user_is_told_of_a_wrong_word_quotes_it_harmlessly(name: str, run: Run) -> None:
    word = payload(name, "Zv", 200)
    for words in (["status", word], [word], ["status", f"--{word}"], ["status", "--store", word]):
        assert obeyed(run(*words)) == set()
