"""Converts a node's newest readings to points with conventional names; unknown values give none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from stepwatch.agent.devices.rows import name_of
from stepwatch.agent.facts.book import KnownFact
from stepwatch.signals.node_facts.catalogue import Severity
from stepwatch.signals.otlp.points import UP_DOWN_COUNTER, Point
from stepwatch.signals.records import UNKNOWN, Kind
from stepwatch.signals.wire import Rows

from .conventions import CONVENTIONS, STATUS_TYPES, Convention

MOST_POINTS = 2048
"""Maximum per request; 128 devices with 10 each, 32 interfaces with 6 and 256 facts fit."""
STATES = ("ok", "degraded", "failed")
_STATE_OF = {Severity.FATAL: "failed", Severity.DEGRADED: "degraded"}
_KINDS = {"device": Kind.DEVICE, "network": Kind.NIC, "interface": Kind.NIC, "host": Kind.HOST}


class NodeReadings(Protocol):
    """A node's newest readings."""

    @property
    def latest(self) -> Mapping[str, Rows]:
        """Rows by probe name."""
        ...

    def devices(self) -> Rows:
        """Return DEVICE rows."""
        ...


def points_of(
    readings: NodeReadings, facts: Iterable[KnownFact], sys: Path = Path("/sys")
) -> list[Point]:
    """Return a node's points, at most `MOST_POINTS`; `sys` shows which interfaces are cards."""
    present = list(facts)
    devices = readings.devices()
    points = [
        *_of_devices(devices),
        *_of_interfaces(readings.latest.get("nic"), sys),
        *_of_host(readings.latest.get("host")),
        *_status_of_devices(devices, present),
        *_status_of_parts(present),
    ]
    return points[:MOST_POINTS]


def _of_devices(rows: Rows) -> Iterator[Point]:
    for row in rows:
        yield from _points("device", row, _device(row))


def _of_interfaces(rows: Rows | None, sys: Path) -> Iterator[Point]:
    for row in () if rows is None else rows:
        name = bytes(row["interface"]).decode("ascii", "replace")
        if not name:  # the TCP row
            continue
        yield from _points("interface", row, {"network.interface.name": name})
        if (sys / "class/net" / name / "device").exists():  # a software interface has no device
            card = {"hw.type": "network", "hw.id": name, "hw.name": name}
            yield from _points("network", row, card)


def _of_host(rows: Rows | None) -> Iterator[Point]:
    if rows is not None and len(rows):
        yield from _points("host", rows[-1], {})


def _points(entity: str, row: np.void, identity: dict[str, str]) -> Iterator[Point]:
    for convention in CONVENTIONS:
        if convention.of == entity:
            value = float(row[convention.field])
            if math.isfinite(value) and value != UNKNOWN[_KINDS[entity]][convention.field]:
                yield _point(convention, identity, value)


def _point(convention: Convention, identity: dict[str, str], value: float) -> Point:
    attributes = {**identity, **convention.attributes}
    sent = convention.value_of(value)
    return Point(convention.name, convention.instrument, convention.unit, attributes, sent)


def _device(row: np.void) -> dict[str, str]:
    number = int(row["device"])
    return {"hw.type": "gpu", "hw.id": name_of(row), "hw.name": f"gpu {number}"}


def _status_of_devices(rows: Rows, facts: list[KnownFact]) -> Iterator[Point]:
    """Yield 1 for a device's current state and 0 for the others, if the state is known."""
    for row in rows:
        lost = int(row["lost"])
        if lost == UNKNOWN[Kind.DEVICE]["lost"]:
            continue
        about = [_STATE_OF.get(fact.severity, "ok") for fact in facts if _is_of(fact, row)]
        state = "failed" if lost else max(["ok", *about], key=STATES.index)
        for candidate in STATES:
            yield _status({**_device(row), "hw.state": candidate}, float(candidate == state))


def _status_of_parts(facts: list[KnownFact]) -> Iterator[Point]:
    """Yield 1 for the worst state of each port and disk that has a fact."""
    worst: dict[tuple[str, str], str] = {}
    for fact in facts:
        kind, state = STATUS_TYPES.get(fact.name), _STATE_OF.get(fact.severity)
        if kind is None or state is None:
            continue
        part = kind, fact.key.subject
        worst[part] = max(worst.get(part, state), state, key=STATES.index)
    for (kind, name), state in worst.items():
        attributes = {"hw.type": kind, "hw.id": name, "hw.name": name, "hw.state": state}
        yield _status(attributes, 1.0)


def _is_of(fact: KnownFact, row: np.void) -> bool:
    return fact.key.subject == name_of(row) and fact.name not in STATUS_TYPES


def _status(attributes: dict[str, str], value: float) -> Point:
    return Point("hw.status", UP_DOWN_COUNTER, "1", attributes, value)
