"""`stepwatch checklist`: what passes, fails, is unknown or is asked, from a real store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.checklist.checks import CHECKS
from stepwatch.cli.main import PROBLEM, USAGE, main
from stepwatch.cli.verbs.checklist import LISTS, items
from stepwatch.collector.store import Store
from tests.cli.response.conftest import place

__all__ = ["place"]

Capture = pytest.CaptureFixture[str]


def states(shown: str) -> dict[str, str]:
    return {item.get("check", "asked"): item["state"] for item in json.loads(shown)["items"]}


def test_an_open_incident_fails_and_no_node_is_unknown(place: str, capsys: Capture) -> None:
    assert main(["checklist", "production-readiness", "--json", "--store", place]) == PROBLEM
    shown = capsys.readouterr().out
    states_by_check = states(shown)
    assert (states_by_check["incidents"], states_by_check["nodes"], states_by_check["asked"]) == (
        "FAIL",
        "UNKNOWN",
        "ASK",
    )
    assert "straggler" in shown


def test_an_empty_store_is_unknown_and_never_healthy(tmp_path: Path, capsys: Capture) -> None:
    Store.sqlite(tmp_path / "empty.db").close()
    words = ["checklist", "production-readiness", "--json", "--store", str(tmp_path / "empty.db")]
    assert main(words) == PROBLEM
    states_by_check = states(capsys.readouterr().out)
    assert states_by_check.pop("silences") == "PASS", "that none is in force is known"
    assert set(states_by_check.values()) == {"UNKNOWN", "ASK"}


def test_no_collector_is_unknown(capsys: Capture) -> None:
    assert main(["checklist", "weekly", "--collector", "http://127.0.0.1:1"]) == PROBLEM
    assert "no collector answers" in " ".join(capsys.readouterr().out.split())


def test_every_item_is_of_a_list_and_has_a_check_that_exists() -> None:
    assert {name for item in items() for name in item["lists"]} == set(LISTS)
    assert {item["check"] for item in items() if "check" in item} == set(CHECKS)


def test_no_such_list(capsys: Capture) -> None:
    assert main(["checklist", "daily"]) == USAGE
    assert "daily" in capsys.readouterr().err


def listed(capsys: Capture, *words: str) -> dict[str, dict[str, str]]:
    """Items of a list by their check."""
    capsys.readouterr()
    main(["checklist", *words, "--json"])
    listed_items = json.loads(capsys.readouterr().out)["items"]
    return {item["check"]: item for item in listed_items if "check" in item}


def test_an_incident_needs_somebody_who_has_it(place: str, capsys: Capture) -> None:
    words = ("incident", "--store", place)
    assert listed(capsys, *words)["responders"]["state"] == "FAIL"
    capsys.readouterr()
    main(["incidents", "--json", "--store", place])
    (incident,) = json.loads(capsys.readouterr().out)
    main(["incidents", "ack", incident["id"], "--store", place])
    assert listed(capsys, *words)["responders"]["state"] == "FAIL", "nobody owns it"
    main(["incidents", "assign", incident["id"], "ada", "--store", place])
    capsys.readouterr()
    assert listed(capsys, *words)["responders"]["state"] == "PASS"


def test_a_silence_is_named(place: str, capsys: Capture) -> None:
    words = ("weekly", "--store", place)
    assert listed(capsys, *words)["silences"]["state"] == "PASS"
    main(["silence", "hang", "--for", "2h", "--why", "x", "--by", "ada", "--store", place])
    capsys.readouterr()
    silences_item = listed(capsys, *words)["silences"]
    assert (
        silences_item["state"] == "WARN" and "of hang by ada, 2h left" in silences_item["evidence"]
    )


def _answer(answer: Any, query: dict[str, str]) -> Any:
    return answer(**query) if callable(answer) else answer


def outcome(name: str, job: str = "", **answers: Any) -> tuple[str, str]:
    """What a check says of a collector's answers, by the end of their path."""
    result = CHECKS[name](
        lambda path, **query: _answer(answers[path.rpartition("/")[2]], query), job
    )
    return result.state, result.evidence


@pytest.mark.parametrize(
    ("checkpoints", "state", "message"),
    [
        ([], "UNKNOWN", "a: has no checkpoint, now at step 9"),
        ([{"step": 4, "verified": True}], "PASS", "that of step 4 verified"),
        ([{"step": 4, "verified": True}, {"step": 8, "verified": False}], "FAIL", "step 8 did not"),
        ([{"step": 8, "verified": None}], "UNKNOWN", "step 8 is not verified"),
    ],
)
def test_the_newest_checkpoint_counts(
    checkpoints: list[dict[str, Any]], state: str, message: str
) -> None:
    line = {"job": "a", "state": "running"}
    of_job = {"step": 9, "checkpoints": checkpoints}
    answers: dict[str, Any] = {"jobs": {"jobs": [line]}, "a": of_job}
    result = outcome("checkpoints", **answers)
    assert result[0] == state and message in result[1]


def test_what_is_not_looked_for_fails_and_an_old_answer_is_unknown() -> None:
    jobs = {"jobs": [{"job": "a", "state": "running"}]}
    for answer, state in (
        ({"job": "a", "not_looked_for": {"hang": "KeyError"}}, "FAIL"),
        ({"job": "a", "stale": {"seconds": 30}}, "UNKNOWN"),
        ({"job": "a", "not_looked_for": {}}, "PASS"),
    ):
        assert outcome("detectors", jobs=jobs, a=answer)[0] == state


def test_nodes_that_fail_again_and_incidents_that_nobody_had_warn() -> None:
    nodes = [{"node": "gpu-03", "repeat_offender": True}, {"node": "b", "repeat_offender": False}]
    last = {"next": None, "history_cut": False}
    assert outcome("offenders", nodes={"nodes": nodes, **last}) == ("WARN", "gpu-03")
    assert outcome("offenders", nodes={"nodes": [], **last})[0] == "UNKNOWN"
    assert outcome("offenders", nodes={"nodes": nodes[1:], **last}) == ("PASS", "none is")
    cut = {**last, "history_cut": True}
    assert outcome("offenders", nodes={"nodes": nodes[1:], **cut})[0] == "UNKNOWN"
    pages: dict[str, dict[str, Any]] = {
        "": {"nodes": nodes[1:], **last, "next": "b"},
        "b": {"nodes": nodes[:1], **last},
    }
    result = outcome("offenders", nodes=lambda after="": {**pages[after]})
    assert result == ("WARN", "gpu-03"), "it is on the second page"
    over = {"id": "x", "state": "resolved", "job": "a", "response": {"owner": ""}}
    assert outcome("owners", incidents={"incidents": [over]}) == ("WARN", "1 of 1 have none: x")
    owned = {**over, "response": {"owner": "ada"}}
    assert outcome("owners", incidents={"incidents": [owned]})[0] == "PASS"


def test_jobs_that_are_not_asked_for_are_unknown_and_few_are_named() -> None:
    jobs = {"jobs": [{"job": f"job-{number}", "state": "running"} for number in range(60)]}
    good = {"not_looked_for": {}, "step": 9, "checkpoints": [{"step": 8, "verified": True}]}
    answers: dict[str, Any] = {
        f"job-{number}": {"job": f"job-{number}", **good} for number in range(60)
    }
    for name in ("detectors", "checkpoints"):
        state, evidence = outcome(name, jobs=jobs, **answers)
        assert state == "UNKNOWN" and "10 further jobs were not asked for" in evidence
    assert outcome("jobs", jobs=jobs)[1].endswith("job-4 is running and 55 more")


def test_open_incidents_are_asked_for_by_their_state() -> None:
    jobs = {"jobs": [{"job": "a", "state": "running"}]}
    old = {"id": "x", "kind": "hang", "job": "a", "state": "open", "severity": "page"}
    newest = [{**old, "id": f"{number}", "state": "resolved"} for number in range(1000)]
    answers = {"": newest, "open": [old]}
    stub_answers: dict[str, Any] = {
        "jobs": jobs,
        "incidents": lambda state="": {"incidents": answers[state]},
    }
    assert outcome("incidents", **stub_answers) == ("FAIL", "x (hang, a)")
    assert outcome("responders", **stub_answers)[0] == "FAIL"


def test_what_a_person_must_answer_says_where_to_look() -> None:
    assert all(("check" in item) != ("look" in item) for item in items())
