"""Keys of the collector's answers on every path, over a synthetic run with all kinds of records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from starlette.routing import Route

from stepwatch import runbooks
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.profiles import Wanted
from stepwatch.collector.web.api import make_api
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, make_rows
from stepwatch.signals.wire import Segment
from tests.collector.client import Client
from tests.collector.explained import store_explained
from tests.collector.gathered import call_rows, group_rows
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    microbatch_rows,
    segment,
)
from tests.collector.nodes.sightings import XID_79, report

STEPS = 60
NODE = "gpu-1"
UNLISTED = ("/v1/events", "/v1/openapi.json")
"""An answer without an end, and one that names the keys of all others."""
INCIDENTS = "incidents"
"""Key of the list of `/v1/incidents/{id}` answers, whose own keys are listed once."""


def response_keys(folder: Path) -> Iterator[str]:
    """`METHOD path` of each route, and below it each key of its JSON; `[]` is an item of a list."""
    store_explained(folder / "store.db")
    store = Store.sqlite(folder / "store.db")
    slow = next(
        incident for incident in store.incidents.newest(JOB) if incident["kind"] == "straggler"
    )
    lone = {**slow, "id": "alone", "merged_into": "", "state": "resolved"}
    store.save_evaluation(JOB, [], [lone])
    compared = _profiles(store)
    try:
        service = Service(store, HandClock(30.0))
        app = make_api(service, runbook=runbooks.render)
        client = Client(app)
        verdicts = client.post("/v1/segments", content=body([_extras(), *_nodes()])).json()
        service.evaluate()
        yield from (f"POST /v1/segments -> {key}" for key in _keys(verdicts))
        for route in app.routes:
            assert isinstance(route, Route)
            for method in sorted(set(route.methods or ()) - {"HEAD"}):
                yield f"{method} {route.path}"
                if method == "GET" and route.path.startswith("/v1/") and route.path not in UNLISTED:
                    answer = client.get(_address(client, route.path, compared))
                    assert answer.status_code == 200, (route.path, answer.text)
                    if answer.headers["content-type"] != "application/json":
                        continue
                    keys = _keys(answer.json())
                    yield from (f"GET {route.path} -> {key}" for key in keys)
    finally:
        store.close()


def _profiles(store: Store) -> str:
    """Request two profiles, of which the second is open; return the first one's id."""
    wanted = Wanted(JOB, 0, 2, "node-0", 3, "node-0", 90, 3, [], "ada")
    first = store.profiles.add(wanted).id
    store.profiles.add_trace(first, 2, b"\x1f\x8b")
    row = dict.fromkeys(("kind", "name", "modules", "code", "seconds", "peer_seconds"))
    names = ("rank", "peer", "first_step", "steps", "step_seconds", "pattern", "excess_seconds")
    comparison = dict.fromkeys((*names, "on_device", "waits")) | {"rows": [row]}
    store.profiles.close(first, "aten::mm 2.1x", comparison)
    store.profiles.add(wanted)
    return first


def _address(client: Client, path: str, profile: str) -> str:
    """The path with a job, an incident, a profile and a runbook that there are."""
    incident = next(
        item for item in client.get("/v1/incidents").json()["incidents"] if item["symptoms"]
    )
    names = {"{job}": JOB, "{id}": incident["id"], "{name}": incident["runbook"]}
    names |= {"{node}": NODE, "{profile}": profile, "{rank}": "2"}
    for placeholder, value in names.items():
        path = path.replace(placeholder, value)
    queries = {"/v1/report": f"?from=0&until={1 << 32}", "/v1/search": "?q=g"}
    queries["/v1/sweeps"] = f"?match={JOB}"
    return path + queries.get(path, "")


def _nodes() -> list[Segment]:
    """Return reports of nodes with the same fault at the same time."""
    return [report(29.0, XID_79, node=name) for name in (NODE, "gpu-2", "gpu-3")]


def _extras() -> Segment:
    """Return the tables that a plain run lacks: collectives, a schedule, microbatches and a
    checkpoint."""
    ranks = range(4)
    schedule = lifecycle_rows(LifecycleEvent.SCHEDULE, ranks, 200_000)
    schedule["text"] = b"GPipe"
    checkpoints = [CheckpointEvent.BEGIN, CheckpointEvent.WRITTEN, CheckpointEvent.VERIFIED]
    named = make_rows(
        Kind.METRIC_NAME, 1, rank=0, number=1, text=b"val_loss", evaluation=b"validation"
    )
    metric = make_rows(Kind.METRIC, 1, rank=0, evaluated=1, name_0=1, value_0=2.5)
    tables = {
        Kind.METRIC_NAME: named,
        Kind.METRIC: metric,
        Kind.LIFECYCLE: schedule,
        Kind.GROUP: group_rows(10, (0, 1, 2, 3)),
        Kind.COLLECTIVE: call_rows(range(STEPS), dict.fromkeys(ranks, 0.04), group=10),
        Kind.MICROBATCH: microbatch_rows(STEPS - 5, ranks, began=(STEPS - 5) * 0.2),
        Kind.CHECKPOINT: np.concatenate([checkpoint_rows(e, ranks, 20) for e in checkpoints]),
    }
    return segment(1000, tables)


def _keys(value: Any, prefix: str = "") -> set[str]:
    """Paths of all keys in a JSON value."""
    if isinstance(value, list):
        return {key for item in value for key in _keys(item, f"{prefix}[]")}
    if not isinstance(value, dict):
        return set()
    dot = f"{prefix}." if prefix else ""
    deeper = [_keys(item, f"{dot}{key}") for key, item in value.items() if key != INCIDENTS]
    return {f"{dot}{key}" for key in value}.union(*deeper)
