"""Which incident fills in a runbook, and the tree that a page draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwatch import runbooks
from stepwatch.collector.incidents.model import incident_from
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.runbooks.tree import sections_of
from stepwatch.collector.web.runbooks.view import relevant, runbook_document
from stepwatch.collector.web.schema.runbook import NODE_KINDS, RunbookNode
from stepwatch.signals.names import (
    ALERT_CHECKPOINT_UNVERIFIED,
    ALERT_NAMES,
    ALERT_NOT_RESTARTED,
    ALERT_OF,
    ALERT_RANK_FAILED,
    FindingKind,
)
from tests.collector.client import Client
from tests.collector.made import HandClock


def incident(kind: FindingKind, opened_at: float, state: str = "open") -> dict[str, Any]:
    name = f"{kind.value}/{opened_at}"
    reported = {"kind": kind.value, "runbook": ALERT_OF[kind], "state": state, "job": "llama"}
    return {"id": name, "opened_at": opened_at, **reported}


KNOWN = [
    incident(FindingKind.RANK_FAILED, 1.0, "ended"),
    incident(FindingKind.RANK_FAILED, 2.0),
    incident(FindingKind.CHECKPOINT_STALL, 3.0),
    incident(FindingKind.STRAGGLER, 4.0),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ALERT_RANK_FAILED, "rank-failed/2.0"),
        (ALERT_NOT_RESTARTED, "rank-failed/2.0"),
        (ALERT_CHECKPOINT_UNVERIFIED, "checkpoint-stall/3.0"),
        (ALERT_OF[FindingKind.HANG], None),
    ],
)
def test_an_alert_without_findings_of_its_own_is_filled_in_from_what_led_to_it(
    name: str, expected: str | None
) -> None:
    reported = relevant(KNOWN, name, {"job": "llama"})
    assert (None if reported is None else reported["id"]) == expected
    assert relevant(KNOWN, name, {"job": "another"}) is None


def nodes_in(nodes: list[RunbookNode]) -> list[RunbookNode]:
    return [part for node in nodes for part in (node, *nodes_in(node["parts"]))]


def test_markup_in_a_value_is_text_and_only_web_addresses_are_links() -> None:
    text = (
        "# Title\n\nJob <img src=x onerror=alert(1)> is `slow`.\n\n"
        "## First\n\n1. [web](https://a.example/b) [script](javascript:alert(1)) [page](./x.md)\n"
    )
    introduction, first = sections_of(text)
    assert (introduction["title"], first["title"]) == ("", "First")
    (paragraph,) = introduction["nodes"]
    assert "".join(part["text"] for part in paragraph["parts"]) == (
        "Job <img src=x onerror=alert(1)> is slow."
    )
    links = [node["href"] for node in nodes_in(first["nodes"]) if node["kind"] == "link"]
    assert links == ["https://a.example/b"]
    assert {node["href"] for node in nodes_in(first["nodes"])} == {"", *links}


@pytest.mark.parametrize("name", sorted(ALERT_NAMES))
def test_every_runbook_has_a_first_step_and_documented_parts(name: str) -> None:
    document = runbook_document(name, None, "http://collector", runbooks.render)
    assert document["first_steps"] and document["first_steps"][0]["text"]
    for section in document["sections"]:
        for node in nodes_in(section["nodes"]):
            assert node["kind"] in NODE_KINDS, node
            assert not node["text"] or node["kind"] in ("text", "word", "code"), node


def test_a_requested_incident_fills_in_its_runbook_however_old_it_is(tmp_path: Path) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    blank = incident_from({}).document()
    of_rank = {"node": "gpu-7", "rank": 3, "attempt": 0, "since_step": 9}
    documents = [
        {**blank, **incident(FindingKind.HANG, float(number)), **of_rank} for number in range(1100)
    ]
    store.save_evaluation("llama", [], documents)
    client = Client(make_api(Service(store, HandClock(30.0)), runbook=runbooks.render))
    name = ALERT_OF[FindingKind.HANG]
    asked = documents[0]["id"]
    assert client.get(f"/v1/runbooks/{name}?incident={asked}").json()["incident"] == asked
    assert client.get(f"/v1/runbooks/{name}?incident=none").json()["incident"] is None
    newest = client.get(f"/v1/runbooks/{name}?job=llama").json()
    assert newest["incident"] == documents[-1]["id"] and newest["job"] == "llama"
    assert client.get(f"/v1/runbooks/{name}?job=another").json()["incident"] is None
    store.close()
