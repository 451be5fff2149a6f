"""Reads torch's flight recorders from the worker server.

There are two: NCCL's, which only CUDA builds have, and the other backends'. A group such as
`cpu:gloo,cuda:nccl` is in both, with separate numbers in each.

NCCL's recorder is not asked for its entries. To list them, the answering thread queries CUDA
events. That aborts a graph capture in the rank, and a thread without a device creates a context
on the first one, half a gigabyte per rank.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

from stepwatch.signals.records import DTYPES, WORLD_GROUP, Kind, text_bytes

NCCL, OTHERS = "dump_nccl_trace_json?includecollectives=false", "fr_trace_json"
"""Worker server handlers."""
PER_GROUP = 16
"""Newest entries kept per process group."""
MAX_GROUPS = 16
_NAMES = frozenset({"entries", "pg_status"})
"""Keys that identify a recorder's answer."""
_MOST = (1 << 63) - 1
_COMPLETED = "completed"
_NCCL_GROUP = f"{WORLD_GROUP} nccl"
_MEMBERS_BYTES = 12
"""Longer member lists are shown as a checksum, which is enough to distinguish groups."""
_GROUP_BYTES = DTYPES[Kind.FLIGHT]["group"].itemsize


class Entry(NamedTuple):
    """One collective in a group: its number there, operation, input sizes and state.

    `group` is torch's name and description, with the members in brackets if they are known.
    """

    group: str
    collective_seq: int
    op: str
    sizes: str
    state: str


class Flight(NamedTuple):
    """Newest entries, oldest first; the world group's collective numbers, -1 if unknown."""

    entries: tuple[Entry, ...] = ()
    enqueued: int = -1
    completed: int = -1


def parse(body: bytes) -> Flight:
    """Parse an answer; invalid entries are left out.

    A recorder without any collective leaves `entries` out.

    Raises:
        ValueError: the answer is not JSON, or not a flight recorder's.
    """
    try:
        document = json.loads(body)
    except RecursionError as error:
        raise ValueError("its answer is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError("its answer is not JSON") from error
    if not isinstance(document, dict) or not _NAMES & document.keys():
        raise ValueError("its answer is not a flight recorder's")
    entries = document.get("entries", [])
    if not isinstance(entries, list):
        raise ValueError("its entries are not a list")
    status = _dict(_dict(document.get("pg_status")).get(WORLD_GROUP))
    groups = _dict(document.get("pg_config"))
    parsed = (_entry(raw, groups) for raw in entries)
    return Flight(
        _newest([entry for entry in parsed if entry is not None]),
        _number(status.get("last_enqueued_collective")),
        _number(status.get("last_completed_collective")),
    )


def parse_nccl(body: bytes) -> Flight:
    """Parse NCCL's answer without entries: the world group's progress.

    It becomes the newest entry and the oldest incomplete one. Each process numbers other groups
    itself, so they cannot be compared.

    Raises:
        ValueError: the answer is not JSON, or not a flight recorder's.
    """
    flight = parse(body)
    oldest = max(flight.completed, 0) + 1  # torch counts from 1, and reports -1 for none
    numbers = {flight.enqueued, min(oldest, flight.enqueued)} - {-1}
    entries = (
        Entry(_NCCL_GROUP, number, "collective", "", _state(number <= flight.completed))
        for number in sorted(numbers)
    )
    return flight._replace(entries=tuple(entries))


def merged(nccl: Flight, backends: Flight) -> Flight:
    """Merge both; NCCL's entries come last, and a later bound keeps the last entries."""
    numbers = nccl if nccl.enqueued >= 0 else backends
    return Flight((*backends.entries, *nccl.entries), numbers.enqueued, numbers.completed)


def _newest(entries: list[Entry]) -> tuple[Entry, ...]:
    by_group: dict[str, list[Entry]] = {}
    for entry in reversed(entries):
        if entry.group not in by_group and len(by_group) == MAX_GROUPS:
            continue
        of_group = by_group.setdefault(entry.group, [])
        if len(of_group) < PER_GROUP:
            of_group.append(entry)
    return tuple(entry for group in by_group.values() for entry in reversed(group))


def _entry(raw: Any, groups: dict[str, Any]) -> Entry | None:
    """Parse an entry; None for sends and receives (numbered separately) and invalid ones."""
    if not isinstance(raw, dict) or raw.get("is_p2p"):
        return None
    number = _number(raw.get("collective_seq_id"))
    group = raw.get("process_group")
    if number < 0 or not isinstance(group, list) or not group:
        return None
    op = str(raw.get("profiling_name", ""))[:64].rpartition(":")[2]
    label = _label([part for part in group[:2] if isinstance(part, str)], groups)
    # For Gloo, torch always reports `scheduled`, and retires ended entries.
    state = _COMPLETED if raw.get("retired") is True else str(raw.get("state"))[:16]
    return Entry(label, number, op, _sizes(raw.get("input_sizes")), state)


def _state(completed: bool) -> str:
    return _COMPLETED if completed else "scheduled"


def _label(parts: list[str], groups: dict[str, Any]) -> str:
    """Return a group's name and description, with the members if `groups` has them.

    Groups that split one mesh share name and description; only their members differ. Two groups on
    one rank may share the name, too: then torch lists only one group's members, with its
    description.
    """
    name = " ".join(parts)
    config = _dict(groups.get(parts[0])) if parts else {}
    ranks = config.get("ranks")
    if not isinstance(ranks, str) or config.get("desc") not in parts[1:]:
        return text_bytes(name, _GROUP_BYTES).decode()
    members = "[" + ranks.strip("[] ").replace(" ", "") + "]"
    if len(members) > _MEMBERS_BYTES or not members.isascii():
        members = f"[{zlib.crc32(members.encode()):08x}]"
    return text_bytes(name, _GROUP_BYTES - len(members) - 1).decode() + " " + members


def _sizes(value: Any) -> str:
    """Format input sizes as `1000,3;5`: one tensor after the other."""
    tensors = value if isinstance(value, list) else []
    parts = [tensor if isinstance(tensor, list) else [tensor] for tensor in tensors[:64]]
    return ";".join(",".join(str(dimension)[:20] for dimension in part[:16]) for part in parts)[
        :512
    ]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= _MOST else -1
