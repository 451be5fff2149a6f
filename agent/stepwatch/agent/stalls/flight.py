"""Reads torch's flight recorders as the worker server returns them.

There are two: NCCL's, which only builds for CUDA have, and that of the other backends. A group
such as `cpu:gloo,cuda:nccl` is in both, each with numbers of its own.

NCCL's is not asked for its entries. To tell them, the thread that answers asks CUDA for events:
that ends the capture of a graph that is under way in the rank, and a thread that has named no
device makes a context on the first one, half a gigabyte for each rank beside it.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

from stepwatch.signals.records import DTYPES, WORLD_GROUP, Kind, text_bytes

NCCL, OTHERS = "dump_nccl_trace_json?includecollectives=false", "fr_trace_json"
"""Handlers of the worker server."""
PER_GROUP = 16
"""Newest entries kept of each process group."""
MAX_GROUPS = 16
_NAMES = frozenset({"entries", "pg_status"})
"""What an answer is known by."""
_MOST = (1 << 63) - 1
_COMPLETED = "completed"
_NCCL_GROUP = f"{WORLD_GROUP} nccl"
_MEMBERS_BYTES = 12
"""Members longer than this are shown as a checksum: it is enough to distinguish groups."""
_GROUP_BYTES = DTYPES[Kind.FLIGHT]["group"].itemsize


class Entry(NamedTuple):
    """One collective of one group: its number there, operation, input sizes and state.

    `group` is torch's name and description of it, and its members in brackets where they are known.
    """

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

    A recorder that has seen no collective leaves `entries` out.

    Raises:
        ValueError: it is not JSON, or no flight recorder wrote it.
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
        raise ValueError("its entries are no list")
    status = _dict(_dict(document.get("pg_status")).get(WORLD_GROUP))
    groups = _dict(document.get("pg_config"))
    parsed = (_entry(raw, groups) for raw in entries)
    return Flight(
        _newest([entry for entry in parsed if entry is not None]),
        _number(status.get("last_enqueued_collective")),
        _number(status.get("last_completed_collective")),
    )


def parse_nccl(body: bytes) -> Flight:
    """Read NCCL's answer without entries: how far the group of all ranks came.

    It becomes the entry that is newest, and the oldest that has not completed. Other groups are
    numbered by each process for itself, so nothing can be said of them.

    Raises:
        ValueError: it is not JSON, or no flight recorder wrote it.
    """
    flight = parse(body)
    oldest = max(flight.completed, 0) + 1  # torch counts from 1, and says -1 of none
    numbers = {flight.enqueued, min(oldest, flight.enqueued)} - {-1}
    entries = (
        Entry(_NCCL_GROUP, number, "collective", "", _state(number <= flight.completed))
        for number in sorted(numbers)
    )
    return flight._replace(entries=tuple(entries))


def merged(nccl: Flight, backends: Flight) -> Flight:
    """Both; of what is beyond a bound, the last entries are kept, and NCCL's are last."""
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
    """One entry; None for sends and receives, which are numbered apart, and for what is none."""
    if not isinstance(raw, dict) or raw.get("is_p2p"):
        return None
    number = _number(raw.get("collective_seq_id"))
    group = raw.get("process_group")
    if number < 0 or not isinstance(group, list) or not group:
        return None
    op = str(raw.get("profiling_name", ""))[:64].rpartition(":")[2]
    label = _label([part for part in group[:2] if isinstance(part, str)], groups)
    # Of Gloo's torch says `scheduled` for ever, and retires what has ended.
    state = _COMPLETED if raw.get("retired") is True else str(raw.get("state"))[:16]
    return Entry(label, number, op, _sizes(raw.get("input_sizes")), state)


def _state(completed: bool) -> str:
    return _COMPLETED if completed else "scheduled"


def _label(parts: list[str], groups: dict[str, Any]) -> str:
    """Name and description, then the members where `groups` has them.

    Groups that split one mesh share name and description; only their members differ. Two
    groups of one rank may share the name too: then torch lists the members of one, with its
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
    """Input sizes as `1000,3;5`: one tensor after the other."""
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
