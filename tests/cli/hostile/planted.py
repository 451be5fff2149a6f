"""A job of which every text is hostile, as a collector stores and evaluates it."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import numpy as np

from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.runbooks import render
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import (
    DTYPES,
    CheckpointEvent,
    Fact,
    Kind,
    LifecycleEvent,
    Link,
    NodeFact,
    NumericsSource,
    make_rows,
)
from stepwatch.signals.wire import Rows
from tests.collector.client import Client
from tests.collector.made import HandClock, body, fact_rows, lifecycle_rows, link_rows, segment
from tests.collector.runtime.test_evaluation import SLOW, Site

PAYLOADS = {
    "clipboard": "\x1b]52;c;ZQ==\x07",
    "screen": "\x1b[2J",
    "c1": "\x9b31m",
    "direction": "\u202etxt.exe",
    "image": "<img src=x onerror=alert(1)>",
    "link": "[x](javascript:alert(1))",
    "cell": "a|b",
    "code": "`b`",
    "heading": "\n# heading",
    "mark": "\ufdd0red\ufdd1",
}
"""What a terminal, Markdown or HTML would act on, by what it would do."""
_SHORT = {"image": "<img src=x>", "link": "[x](data:a)"}
_TEXTS = [
    (kind, name)
    for kind, dtype in DTYPES.items()
    for name in dtype.names or ()
    if dtype[name].kind == "S"
]
FIELDS = {
    field: f"Z{letter}"
    for field, letter in zip(_TEXTS, string.ascii_letters[: len(_TEXTS)], strict=True)
}
"""The tag that stands before the payload, by kind and name of each field that is a text."""
FAILURE, PART = FIELDS[Kind.LIFECYCLE, "text"], FIELDS[Kind.NODE_FACT, "subject"]
FUNCTION, LINE = FIELDS[Kind.DIAGNOSIS, "function"], FIELDS[Kind.LAST_LINE, "text"]
WORDS = {
    **{f"fact {part}": f"Y{part[0]}" for part in ("name", "value")},
    **{f"link {part}": f"X{part[0]}" for part in ("tracker", "run", "url")},
    **{f"{part}": f"W{part[0]}" for part in ("owner", "text", "by", "why")},
    **{event: f"V{event[0]}" for event in ("SCHEDULE", "DEVICE_TIMING")},
}
"""The tags of texts that are longer than a record, or that people write."""
_VALUES: dict[Kind, dict[str, Any]] = {
    Kind.CHECKPOINT: {"event": CheckpointEvent.FAILED},
    Kind.NUMERICS: {"source": NumericsSource.COLLECTIVE_INPUT, "nonfinite": 3},
    Kind.LIFECYCLE: {"event": LifecycleEvent.FAILURE, "value": 1},
    Kind.DIAGNOSIS: {"worker_answered": 1, "stack_read": 1, "gil": 2},
    Kind.FLIGHT: {"collective_seq": 41},
    Kind.HOST: {"neighbour_cpu_ratio": 3.0, "neighbour_pid": 7, "cpu_busy_ratio": 1.0},
    Kind.DEVICE: {"lost": 1},
    Kind.NODE_FACT: {"fact": NodeFact.DISK_SLOW, "present": 1, "count": 1, "rank": -1},
    Kind.LAST_LINE: {"kept": 1},
    Kind.GAP: {"first_seq": 1, "last_seq": 5},
}


TOGETHER = ("all-0", "all-5")
"""As many payloads as fit, from another one on in each text: quicker than all, one by one."""


def payload(name: str, tag: str, size: int = 48) -> str:
    """The tag and a payload, in at most `size` bytes."""
    if name in PAYLOADS:
        text = f"{tag}{PAYLOADS[name]}"
        return text if len(text.encode()) <= size else f"{tag}{_SHORT[name]}"
    text, names = tag, list(PAYLOADS)
    first = ord(tag[1]) + int(name.partition("-")[2])
    for offset in range(len(names)):
        more = names[(first + offset) % len(names)]
        shorter = (piece for piece in (PAYLOADS[more], _SHORT.get(more, "")))
        text += next((piece for piece in shorter if len((text + piece).encode()) <= size), "")
    return text


def rows(kind: Kind, name: str, time_s: float, step: int) -> Rows:
    """A row of rank 0 with hostile texts."""
    table = make_rows(kind, 1, rank=0, time_ns=round(time_s * NANOSECONDS), step=step)
    for field, value in _VALUES.get(kind, {}).items():
        table[field] = value
    if "began_ns" in (table.dtype.names or ()):
        table["began_ns"] = table["time_ns"]
    for (field_kind, field), tag in FIELDS.items():
        if field_kind is kind:
            table[field] = payload(name, tag, table.dtype[field].itemsize).encode()
    return table


def plant(place: Path, name: str) -> None:
    """A store in which a job was slow, described, then hung and failed; with notes and silences."""
    store = Store.sqlite(place)
    site = Site(store, HandClock(0.0))
    client = Client(make_api(site.service, None, render))
    _run(site, name)
    for incident in store.incidents.newest():
        for event in ("assigned", "comment"):
            note = {
                "event": event,
                "by": payload(name, WORDS["by"], 60),
                "text": payload(name, "Wt", 200),
            }
            client.post(f"/v1/incidents/{incident['id']}/notes", json.dumps(note).encode())
    silence = {"job": "made-by-hand", "seconds": 3600, "by": payload(name, WORDS["by"], 60),
               "why": payload(name, WORDS["why"], 200)}  # fmt: skip
    answer = client.post("/v1/silences", json.dumps(silence).encode())
    assert answer.status_code == 200, answer.text
    site.run(2)
    store.close()


def stored_incidents(place: Path) -> list[dict[str, Any]]:
    """Every incident as it is stored."""
    store = Store.sqlite(place)
    incidents = list(store.incidents.newest())
    store.close()
    return incidents


def incidents(place: Path) -> list[tuple[str, str]]:
    """Id and runbook of each."""
    return [(incident["id"], incident["runbook"]) for incident in stored_incidents(place)]


def _run(site: Site, name: str) -> None:
    start = lifecycle_rows(LifecycleEvent.START, range(4), 4)
    site.send({Kind.LIFECYCLE: np.concatenate([start, *_described(name)])})
    site.run(20)
    node = segment(1, _of_node(name, site.clock.monotonic), job=NODE_STREAM)
    site.service.receive(body([node]))
    first_kinds = (
        Kind.HOST,
        Kind.NIC,
        Kind.DEVICE,
        Kind.TOPOLOGY,
        Kind.GAP,
        Kind.AGENT,
        Kind.NODE_FACT,
    )
    site.send({kind: rows(kind, name, site.clock.monotonic, site.step) for kind in first_kinds})
    site.run(12, excess=SLOW)
    later_kinds = (Kind.CHECKPOINT, Kind.NUMERICS, Kind.DIAGNOSIS, Kind.FLIGHT)
    site.send({kind: rows(kind, name, site.clock.monotonic, site.step) for kind in later_kinds})
    site.run(10, moved_ago=9.0)
    diagnosis_kinds = (Kind.DIAGNOSIS, Kind.FLIGHT)
    site.send({kind: rows(kind, name, site.clock.monotonic, site.step) for kind in diagnosis_kinds})
    site.run(5, moved_ago=20.0)
    last = (Kind.LAST_LINE, Kind.LIFECYCLE, Kind.GROUP, Kind.RANK_STATE)
    tables = {kind: rows(kind, name, site.clock.monotonic, site.step) for kind in last}
    tables[Kind.RANK_STATE]["world"] = 4
    site.send(tables)
    site.clock.advance(3.0)
    site.service.evaluate()


def _of_node(name: str, time_s: float) -> dict[Kind, Rows]:
    return {kind: rows(kind, name, time_s, 0) for kind in (Kind.NODE_FACT, Kind.AGENT)}


def _described(name: str) -> list[Rows]:
    link = Link(*(payload(name, f"X{part}") for part in "tru"))
    facts = [
        Fact(f"config.{payload(name, 'Yn')}", payload(name, "Yv")),
        Fact("owner.team", payload(name, WORDS["owner"])),
    ]
    words = []
    for event in (LifecycleEvent.SCHEDULE, LifecycleEvent.DEVICE_TIMING):
        row = lifecycle_rows(event, [0])
        row["text"] = payload(name, WORDS[event.name]).encode()
        words.append(row)
    return [link_rows(link), *map(fact_rows, facts), *words]
