"""Verbs that read: from a store and from a collector alike; wrong use in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from stepwatch.cli.jobs.status_text import checkpoint_line, what_if_lines
from stepwatch.cli.main import OK, PROBLEM, USAGE, VERBS, load_verb, main
from stepwatch.cli.response.incident_text import impact
from stepwatch.cli.slos.words import slo_line
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind
from tests.collector.explained import store_explained
from tests.collector.made import JOB, HandClock, body, microbatch_rows, run_segments, segment
from tests.collector.process import Process


class Answer(NamedTuple):
    """What a command line came to."""

    code: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> Answer:
        code = main(words)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return command


def refused(answer: Answer, code: int, *parts: str) -> None:
    """One line that names the problem, and nothing else."""
    assert answer.code == code
    assert answer.out == "" and answer.err.count("\n") == 1
    assert answer.err.startswith("stepwatch: ") and len(answer.err) < 500
    for part in parts:
        assert part in answer.err


@pytest.fixture
def straggling(tmp_path: Path) -> Path:
    """A store with one open straggler incident."""
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    service = Service(store, HandClock(30.0))
    service.receive(body(run_segments(60, excess={(2, "forward"): 0.2}, slow_from=40)))
    service.evaluate()
    store.close()
    return path


@pytest.fixture
def served(straggling: Path, tmp_path: Path) -> Iterator[Process]:
    """A collector on that store which does not evaluate again while the test lasts."""
    process = Process(tmp_path, interval=3600.0)
    process.start()
    process.wait_ready()
    yield process
    process.end()


@pytest.fixture
def stranger() -> Iterator[str]:
    """A web server that is not a collector."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, *words: Any) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_status_shows_the_idle_share_of_each_stage_in_the_sampled_step(
    run: Run, tmp_path: Path
) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    service = Service(store, HandClock(30.0))
    service.receive(body(run_segments(20)))
    words = ("status", JOB, "--store", str(tmp_path / "store.db"))
    assert "stages idle unknown: no step has been sampled yet" in run(*words).out
    service.receive(body([segment(9, {Kind.MICROBATCH: microbatch_rows(8, range(4))})]))
    shown = (
        "in step 8: stage 0 0%, stage 1 8%; longest 10 ms, stage 1 before forward of microbatch 0"
    )
    assert shown in " ".join(run(*words).out.split())
    store.close()


def test_a_collector_on_this_machine_is_asked_without_the_proxy(
    run: Run, served: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody listens
    assert "rank 2" in run("incidents", "--collector", served.url).out


@pytest.mark.parametrize("words", [["status"], ["status", JOB], ["incidents"]])
def test_store_and_collector_say_the_same(run: Run, served: Process, words: list[str]) -> None:
    from_store = run(*words, "--store", str(served.store))
    from_collector = run(*words, "--collector", served.url)
    assert from_store.code == from_collector.code == PROBLEM, "an incident is open"
    named_in_commands = from_collector.out.replace(
        f"--collector {served.url}", f"--store {served.store}"
    )
    assert from_store.out == named_in_commands
    assert "made-by-hand" in from_store.out or "rank 2" in from_store.out


def without_moment(document: Any) -> Any:
    """The document without `as_of`: two collectors are not asked at one moment."""
    if isinstance(document, dict):
        return {key: value for key, value in document.items() if key != "as_of"}
    return [without_moment(part) for part in document]


def test_json_is_json_and_the_same(run: Run, served: Process) -> None:
    for words in (["status"], ["status", JOB], ["incidents"], ["incidents", "--job", JOB]):
        texts = [
            run(*words, "--json", *source).out
            for source in (["--store", str(served.store)], ["--collector", served.url])
        ]
        first, second = (without_moment(json.loads(text)) for text in texts)
        assert first == second and first
    job = json.loads(run("status", JOB, "--json", "--store", str(served.store)).out)
    assert job["step"] == 59 and job["slos"][0]["state"] == "too-early"


def test_incident_and_runbook(run: Run, served: Process) -> None:
    source = ["--store", str(served.store)]
    (incident,) = json.loads(run("incidents", "--json", "--state", "open", *source).out)
    detail = run("incidents", "--id", incident["id"], *source)
    assert detail.code == PROBLEM
    for part in ("rank 2", "slow-compute", "since step 40", "self time in forward", "opened"):
        assert part in detail.out
    words = [
        "runbook",
        incident["runbook"],
        "--incident",
        incident["id"],
        "--collector",
        served.url,
    ]
    page, second_page = run(*words), run(*words, *source)
    assert page.code == OK and page.out == second_page.out
    assert JOB in page.out and incident["id"] in page.out and "{" + "rank}" not in page.out
    assert json.loads(run(*words, "--json").out)["text"].strip() == page.out.strip()
    assert run("incidents", "--state", "resolved", *source) == Answer(OK, "no incidents\n", "")


def test_the_fleet_shows_the_worst_incident_and_the_budget_in_words(
    run: Run, straggling: Path
) -> None:
    fleet = run("status", "--store", str(straggling)).out
    assert f"\n{JOB}: straggler: rank 2 is slow in forward since step 40" in fleet
    assert max(map(len, fleet.splitlines())) <= 80
    job = run("status", JOB, "--store", str(straggling)).out
    assert "goodput: too early (a budget is evaluated after 60 min" in job
    assert "degraded, attempt 0" in job
    assert f"OPEN  straggler in job {JOB}, attempt 0" in job
    assert max(len(line) for line in job.splitlines() if "runbook: " not in line) <= 80


@pytest.mark.parametrize("words", [["status"], ["status", JOB], ["status", "--json"]])
def test_a_quarantined_job_is_shown_with_its_reason_and_is_a_problem(
    run: Run, straggling: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("rows do not fit")

    monkeypatch.setattr(LiveJob, "fold", broken)
    answer = run(*words, "--store", str(straggling))
    assert answer.code == PROBLEM
    shown = " ".join(answer.out.split())
    assert "quarantined" in shown and "ValueError: rows do not fit" in shown
    assert "None" not in answer.out


def test_only_an_open_incident_costs_something_now() -> None:
    incident_fields: dict[str, object] = {
        "throughput_lost_ratio": 0.5,
        "throughput_lost_ratio_now": 0.4,
    }
    incident_fields |= {"device_seconds_lost": 90.0}
    assert "(now 40%)" in impact({**incident_fields, "state": "open"})
    for state in ("resolved", "ended", "merged"):
        assert "now" not in impact({**incident_fields, "state": state})


def test_an_unknown_cost_is_not_shown_as_nothing_lost() -> None:
    unknown: dict[str, Any] = {"throughput_lost_ratio": None, "device_seconds_lost": 0.0}
    assert impact(unknown) == "unknown"
    assert impact(unknown | {"device_seconds_lost": 90.0}) == (
        "unknown of throughput, 1.5 device-min"
    )
    unverified = {"step": 20, "verified": None, "stall_seconds": 0.1}
    assert checkpoint_line([unverified]) == (
        "1 saved, none verified: unknown if one can be read, longest stall 100 ms"
    )
    refused = {**unverified, "verified": False}
    assert checkpoint_line([unverified, refused]).startswith("0 of 2 verified, no verified one")


def test_a_gain_is_said_as_people_say_it() -> None:
    scenarios = [
        {"scenario": "a", "faster_ratio": ratio} for ratio in (None, 0.001, 0.12, 3.33, 500)
    ]
    assert what_if_lines(scenarios) == [
        "a: unknown",
        "a: 12% faster",
        "a: 4.3x as fast",
        "a: over 100x as fast",
    ]


def test_what_does_not_exist_is_named_in_words_of_the_command_line(
    run: Run, straggling: Path
) -> None:
    store = ["--store", str(straggling)]
    for words, reported in (
        (["status", "laptop"], "there is no job 'laptop'; `stepwatch status --all` lists them"),
        (["diagnose", "laptop"], "there is no job 'laptop'; `stepwatch status --all` lists them"),
        (["slo", "laptop"], "there is no job 'laptop'; `stepwatch status --all` lists them"),
        (
            ["incidents", "--id", "x1"],
            "there is no incident 'x1'; `stepwatch incidents` lists them",
        ),
        (["postmortem", "x1"], "there is no incident 'x1'; `stepwatch incidents` lists them"),
        (["nodes", "n1"], "there is no node 'n1'; `stepwatch nodes` lists them"),
    ):
        answer = run(*words, *store)
        assert answer.code == PROBLEM and answer.err == f"stepwatch: {reported}\n"
        assert "/v1" not in answer.err


def test_runbooks_are_listed(run: Run) -> None:
    names = run("runbook").out.split()
    assert json.loads(run("runbook", "--json").out) == names
    assert "TrainingStraggler" in names


def test_an_empty_store_is_no_problem(run: Run, tmp_path: Path) -> None:
    Store.sqlite(tmp_path / "s.db").close()
    source = ["--store", str(tmp_path / "s.db")]
    assert run("status", *source) == Answer(OK, "no job has reported yet\n", "")
    assert run("incidents", *source) == Answer(OK, "no incidents\n", "")


def test_reading_writes_nothing(run: Run, straggling: Path) -> None:
    files_before = {path: path.read_bytes() for path in straggling.parent.iterdir()}
    for words in (["status"], ["status", JOB], ["incidents"]):
        answer = run(*words, "--store", str(straggling))
        assert JOB in answer.out and answer.err == ""
    assert {path: path.read_bytes() for path in straggling.parent.iterdir()} == files_before


@pytest.mark.parametrize("verb", ["status", "incidents"])
def test_sources_that_are_none(run: Run, verb: str, tmp_path: Path, stranger: str) -> None:
    missing, text = tmp_path / "none.db", tmp_path / "text"
    text.write_text("hello, I am no database\n" * 100)
    refused(run(verb, "--store", str(missing)), USAGE, str(missing))
    assert not missing.exists(), "asking makes no store"
    refused(run(verb, "--store", str(text)), PROBLEM, str(text))
    refused(run(verb, "--store", str(tmp_path)), USAGE, str(tmp_path))
    refused(run(verb, "--store", "nonsense://x"), PROBLEM, "nonsense")
    refused(run(verb, "--collector", "http://127.0.0.1:1"), PROBLEM, "--collector")
    refused(run(verb, "--collector", "127.0.0.1:1"), USAGE, "--collector")
    refused(run(verb, "--collector", "http://\x01"), USAGE, "URL")
    refused(run(verb, "--collector", stranger), PROBLEM, stranger, "is not a collector")


def test_names_that_are_none(run: Run, straggling: Path) -> None:
    source = ["--store", str(straggling)]
    refused(run("status", "nobody", *source), PROBLEM, "there is no job")
    for name in (f"{JOB}/heatmap", "../incidents", "", "a b", "-"):
        answer = run("status", *source, "--", name) if name else run("status", *source)
        if name:
            refused(answer, USAGE, "job")
    refused(run("incidents", "--id", "feedbeef", *source), PROBLEM, "there is no incident")
    refused(run("incidents", "--id", "a/b", *source), USAGE, "incident")
    refused(run("incidents", "--state", "half", *source), USAGE, "half")
    refused(run("runbook", "NoSuchAlert"), USAGE, "`stepwatch runbook` lists all")
    refused(run("runbook", "TrainingStragler"), USAGE, "did you mean 'TrainingStraggler'?")
    refused(run("runbook", "TrainingHang", "--incident", "x/y", *source), USAGE, "incident")


def test_wrong_usage_of_the_command(run: Run) -> None:
    refused(run("gibberish"), USAGE, "gibberish", "--help")
    refused(run("status", "--nope"), USAGE, "--nope", "stepwatch status --help")
    refused(run("status", "one", "two"), USAGE, "two")
    refused(run("collector", "--port", "many"), USAGE, "--port")
    for interval in ("0", "-1", "nan", "inf", "soon"):
        refused(run("collector", "--interval", interval), USAGE, "--interval")


def test_help(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["-h"]):
        answer = run(*words)
        assert answer.code == OK
        assert all(f"  {verb} " in answer.out for verb in VERBS)
    assert run().code == USAGE
    for verb in VERBS:
        with pytest.raises(SystemExit) as exit_info:
            main([verb, "--help"])
        shown = capsys.readouterr().out
        assert exit_info.value.code == 0
        assert f"example: {load_verb(verb).EXAMPLE}" in shown
        assert load_verb(verb).EXAMPLE.split()[:2] == ["stepwatch", verb]


def test_a_reader_that_stops_reading_is_no_problem(straggling: Path) -> None:
    command = [sys.executable, "-m", "stepwatch.cli", "status", JOB, "--store", str(straggling)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    process.wait(30)
    assert b"Traceback" not in complaints


@pytest.mark.parametrize("columns", [80, 140])
def test_symptoms_are_grouped_under_their_cause(
    run: Run, tmp_path: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    two_faults = tmp_path / "store.db"
    store_explained(two_faults)
    source = ["--store", str(two_faults)]
    (cause,) = json.loads(run("incidents", "--json", "--state", "open", *source).out)
    (merged,) = json.loads(run("incidents", "--json", "--state", "merged", *source).out)
    assert (cause["kind"], merged["kind"]) == ("data-skew", "straggler")
    assert merged["merged_into"] == cause["id"]
    assert cause["symptoms"][0]["summary"] == merged["summary"]
    listed = run("incidents", *source)
    assert "symptoms: straggler on rank 2" in listed.out
    assert f"grouped under incident {cause['id']}" in listed.out
    detail = run("incidents", "--id", cause["id"], *source)
    assert "symptom straggler on rank 2, last seen 20" in detail.out
    assert "since step 40" in detail.out
    prose = [line for line in detail.out.splitlines() if str(two_faults) not in line]
    longest = max(map(len, prose))
    assert longest <= columns and (columns == 80 or longest > 80)


def test_an_slo_with_a_limit_has_no_share_and_no_budget() -> None:
    slo = {
        "name": "step-time-spread",
        "state": "ok",
        "ratio": 1.144,
        "target": None,
        "limit": "at most 2",
        "clock": None,
        "budget": "within",
    }
    assert slo_line(slo) == "step-time-spread: ok, 1.144, asked at most 2"
    assert slo_line({**slo, "ratio": None, "state": "unknown"}).endswith("unknown; asked at most 2")
