"""`stepwatch nodes`: who is not healthy and why, from a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.cli.node_text import fleet_text, node_text
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web import nodes_view
from stepwatch.signals.wire import Segment
from tests.collector.made import body
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, just_now

DAY = 86_400.0
Capture = pytest.CaptureFixture[str]


def stored(folder: Path, *segments: Segment) -> str:
    """A store in which these were received; its path."""
    place = folder / "store.db"
    store = Store.sqlite(place)
    verdicts = Service(store).receive(body(segments))
    assert {verdict.verdict for verdict in verdicts} == {"accepted"}
    store.close()
    return str(place)


def offending(node: str) -> list[Segment]:
    """Two faults within a week, and one that lasts."""
    sightings = []
    for spool, day in ((1, 3), (2, 5)):
        began = {**XID_79, "since": day * DAY + 60.0}
        sightings.append(just_now(node, began, ago=day * DAY + 30.0, spool=spool))
        over = {**began, "present": 0}
        sightings.append(just_now(node, over, ago=day * DAY, spool=spool, sequence=2))
    return [*sightings, just_now(node, {**XID_79, "since": 300.0})]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return stored(tmp_path, *offending("gpu-03"), just_now("gpu-01", DISK_SLOW), just_now("gpu-02"))


def test_the_worst_comes_first_with_why_and_what_to_do(place: str, capsys: Capture) -> None:
    assert main(["nodes", "--store", place]) == PROBLEM
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "3 nodes: 1 failed, 1 degraded, 1 healthy"
    assert [line.split()[0] for line in lines[3:6]] == ["gpu-03", "gpu-01", "gpu-02"]
    assert lines[3].split()[1:3] == ["failed*", "reboot"] and lines[3].split()[-3:-1] == ["3", "3"]
    assert "* repeat offender" in lines and "gpu-02:" not in shown
    assert max(map(len, lines)) <= 80
    assert main(["nodes", "--unhealthy", "--store", place]) == PROBLEM
    assert "gpu-02" not in capsys.readouterr().out


def test_one_node_has_its_history(place: str, capsys: Capture) -> None:
    assert main(["nodes", "gpu-03", "--store", place]) == PROBLEM
    shown = capsys.readouterr().out
    assert "it is a repeat offender" in shown
    assert shown.count("xid 79") == 3 and shown.count(" lasts ") == 1
    assert main(["nodes", "gpu-01", "--store", place]) == OK
    assert main(["nodes", "gpu-02", "--store", place]) == OK
    assert "nothing was ever found wrong" in capsys.readouterr().out


def test_programs_may_read_it(place: str, capsys: Capture) -> None:
    assert main(["nodes", "--json", "--store", place]) == PROBLEM
    fleet = json.loads(capsys.readouterr().out)
    assert [node["node"] for node in fleet["nodes"]] == ["gpu-01", "gpu-02", "gpu-03"]
    assert main(["nodes", "gpu-03", "--json", "--store", place]) == PROBLEM
    assert json.loads(capsys.readouterr().out)["repeat_offender"]


def test_all_pages_are_read(place: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_view.Selection, "__new__", _small(nodes_view.Selection))
    assert main(["nodes", "--json", "--store", place]) == PROBLEM
    fleet = json.loads(capsys.readouterr().out)
    assert [node["node"] for node in fleet["nodes"]] == ["gpu-01", "gpu-02", "gpu-03"]
    assert fleet["next"] is None


def _small(kind: Any) -> Any:
    """Makes what is asked for no more than one node."""
    original = kind.__new__

    def one_per_page(cls: Any, states: Any, after: str, limit: int, *others: Any) -> Any:
        return original(cls, states, after, 1, *others)

    return one_per_page


def test_wrong_use_is_one_line(place: str, capsys: Capture) -> None:
    assert main(["nodes", "nobody", "--store", place]) == PROBLEM
    assert (
        capsys.readouterr().err
        == "stepwatch: there is no node 'nobody'; `stepwatch nodes` lists them\n"
    )
    assert main(["nodes", "../etc", "--store", place]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_store_without_nodes_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    place = stored(tmp_path, just_now("gpu-01"))
    assert main(["nodes", "--unhealthy", "--store", place]) == OK
    assert capsys.readouterr().out == "1 node: 1 healthy\nno node that is not healthy\n"
    empty = tmp_path / "empty.db"
    Store.sqlite(empty).close()
    assert main(["nodes", "--store", str(empty)]) == OK
    assert "a node appears with the first job on it" in capsys.readouterr().out


def test_what_a_later_collector_says_is_shown_as_it_is() -> None:
    """Words of a later version: a state comes first, an action stands for itself."""
    node: dict[str, Any] = {
        "node": "n", "health": "haunted", "reason": "it moans", "action": "exorcise",
        "since": None, "last_report": None, "facts": [], "faults_7d": 0, "faults_30d": 0,
        "jobs_30d": 0, "repeat_offender": False, "parts": [], "history": [],
        "history_left_out": 3,
    }  # fmt: skip
    fleet = {"nodes": [node], "counts": {"haunted": 1}, "together": [], "history_cut": True}
    shown = fleet_text(fleet, 78, 0.0)
    assert "n: it moans: exorcise" in shown and "counts are lower bounds" in shown
    assert "last report unknown" in node_text(node, 78, 0.0)
