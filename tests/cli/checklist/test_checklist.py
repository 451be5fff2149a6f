"""`stepwatch checklist`: what passes, fails, is unknown or is asked, from a real store."""

from __future__ import annotations

import json
from pathlib import Path

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
    found = states(shown)
    assert (found["incidents"], found["nodes"], found["asked"]) == ("FAIL", "UNKNOWN", "ASK")
    assert "straggler" in shown


def test_an_empty_store_is_unknown_and_never_healthy(tmp_path: Path, capsys: Capture) -> None:
    Store.sqlite(tmp_path / "empty.db").close()
    asked = ["checklist", "production-readiness", "--json", "--store", str(tmp_path / "empty.db")]
    assert main(asked) == PROBLEM
    assert set(states(capsys.readouterr().out).values()) == {"UNKNOWN", "ASK"}


def test_no_collector_is_unknown(capsys: Capture) -> None:
    assert main(["checklist", "weekly", "--collector", "http://127.0.0.1:1"]) == PROBLEM
    assert "no collector answers" in " ".join(capsys.readouterr().out.split())


def test_every_item_is_of_a_list_and_has_a_check_that_exists() -> None:
    assert {name for item in items() for name in item["lists"]} == set(LISTS)
    assert {item["check"] for item in items() if "check" in item} == set(CHECKS)


def test_no_such_list(capsys: Capture) -> None:
    assert main(["checklist", "daily"]) == USAGE
    assert "daily" in capsys.readouterr().err
