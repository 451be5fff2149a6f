"""Reads torch's flight recorder as the worker server tells it (`fr_trace_json`)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

PER_GROUP = 16
"""Newest entries kept of each process group."""
MAX_GROUPS = 16
_MOST = (1 << 63) - 1
WORLD_GROUP = "0"
"""Name of the default process group: torch counts them from 0."""


class Entry(NamedTuple):
    """One collective of one group: its number there, operation, input sizes and state."""

    group: str
    collective_seq: int
    op: str
    sizes: str
    state: str


class Flight(NamedTuple):
    """Newest entries, oldest first; numbers of the world group's collectives, -1 if unknown."""

    entries: tuple[Entry, ...] = ()
    enqueued: int = -1
    completed: int = -1


def parse(body: bytes) -> Flight:
    """Read an answer; entries that are not entries are left out.

    Raises:
        ValueError: it is not JSON, or no flight recorder wrote it.
    """
    try:
        document = json.loads(body)
    except RecursionError as error:
        raise ValueError("the flight recorder's answer is nested too deeply") from error
    if not isinstance(document, dict) or not isinstance(document.get("entries"), list):
        raise ValueError("the answer is not a flight recorder's")
    status = _dict(_dict(document.get("pg_status")).get(WORLD_GROUP))
    return Flight(
        _newest([entry for raw in document["entries"] if (entry := _entry(raw)) is not None]),
        _number(status.get("last_enqueued_collective")),
        _number(status.get("last_completed_collective")),
    )


def _newest(entries: list[Entry]) -> tuple[Entry, ...]:
    kept: dict[str, list[Entry]] = {}
    for entry in reversed(entries):
        if entry.group not in kept and len(kept) == MAX_GROUPS:
            continue
        of_group = kept.setdefault(entry.group, [])
        if len(of_group) < PER_GROUP:
            of_group.append(entry)
    return tuple(entry for group in kept.values() for entry in reversed(group))


def _entry(raw: Any) -> Entry | None:
    """One entry; None for sends and receives, which are numbered apart, and for what is none."""
    if not isinstance(raw, dict) or raw.get("is_p2p"):
        return None
    number = _number(raw.get("collective_seq_id"))
    group = raw.get("process_group")
    if number < 0 or not isinstance(group, list) or not group:
        return None
    # The description may differ between ranks; the name torch gave the group does not.
    name = " ".join(str(part) for part in group[:2] if isinstance(part, str))
    op = str(raw.get("profiling_name", ""))[:64].rpartition(":")[2]
    return Entry(name[:64], number, op, _sizes(raw.get("input_sizes")), str(raw.get("state"))[:16])


def _sizes(value: Any) -> str:
    """Input sizes as `1000,3;5`: one tensor after the other."""
    tensors = value if isinstance(value, list) else []
    parts = [tensor if isinstance(tensor, list) else [tensor] for tensor in tensors[:64]]
    return ";".join(",".join(str(each)[:20] for each in part[:16]) for part in parts)[:512]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= _MOST else -1
