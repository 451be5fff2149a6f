"""Collectives: their transfer time, and the members' wait for the last arriver.

Within one step, group and operation the last arriver waits least. Its exposed time is the
**transfer**; the other members' blocked time beyond the transfer is their **arrival skew**. Only
durations are compared, never moments, so no two clocks need to agree.

A record adds up all calls in a step. If the last arriver differs between calls, the least sum is
larger than the sum of the least values: the transfer is then an upper bound and the wait a lower
one. Time overlapped by work is not exposed. For asynchronous calls the transfer is only the part
that work does not hide, and the bus bandwidth is too high.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.trackers.communication.collective_records import Group, group_texts
from stepwatch.signals.arrays import Floats, Integers, Mask, Rows, Vector
from stepwatch.signals.records import Op

_POINT_TO_POINT = (Op.SEND, Op.RECV)


class Waits(NamedTuple):
    """Collectives by (group, op), step and rank, each once; arrays (rows,) unless noted.

    `transfer` and `wait` are in seconds, NaN where unknown: a member is missing, members counted
    different calls, the group's size is unknown, or the operation is point to point. `cell` is each
    row's (group, op, step) number; `first` (cells,) is its first row, `last_rank` (cells,) the rank
    that arrived last, -1 where unknown.
    """

    rows: Rows
    transfer: Vector
    wait: Vector
    cell: Integers
    first: Integers
    last_rank: Integers


class Collective(NamedTuple):
    """One operation in one group over a window; values per step, None where unknown.

    Times are means over the members in seconds. `last_arriver` is the rank that made the other
    members wait longest, `last_arriver_ratio` its share in that wait; it may itself have waited for
    another pipeline stage. In `evaluated_steps` out of `steps`, transfer and arrival skew are known
    separately. `bus_bytes_per_second` compares with the hardware's bandwidth, whatever the size.
    """

    op: Op
    group: int
    ranks: str
    size: int | None
    members_seen: int
    steps: int
    evaluated_steps: int
    calls: float
    bytes: float
    exposed_seconds: float
    transfer_seconds: float | None
    arrival_skew_seconds: float | None
    last_arriver: int | None
    last_arriver_ratio: float | None
    bus_bytes_per_second: float | None


def waits(rows: Rows, groups: Mapping[int, Group]) -> Waits:
    """Separate transfer from wait in rows of `calls.CALL`; the last repeated row counts."""
    rows = _ordered(rows)
    cell, first = _cells(rows)
    exposed = rows["exposed"].astype(np.float64)
    if not len(rows):
        return Waits(
            rows=rows,
            transfer=exposed,
            wait=exposed,
            cell=cell,
            first=first,
            last_rank=first,
        )
    least = np.minimum.reduceat(exposed, first)
    transfer = np.where(_comparable(rows, first, groups), least, np.nan)[cell]
    behind = exposed == least[cell]
    last_rank = np.full(len(first), -1, dtype=np.int64)
    last_rank[cell[behind]] = rows["rank"][behind]
    last_rank[np.isnan(transfer[first])] = -1
    return Waits(
        rows=rows,
        transfer=transfer,
        wait=exposed - transfer,
        cell=cell,
        first=first,
        last_rank=last_rank,
    )


def summaries(
    timing: Waits, groups: Mapping[int, Group], most: int
) -> tuple[list[Collective], int]:
    """Return the `most` (group, op) that blocked longest, worst first, and the number left out."""
    if not len(timing.rows):
        return [], 0
    starts = timing.first[_changes(timing.rows[timing.first], ("group", "op"))]
    ends = np.append(starts[1:], len(timing.rows))
    blocked = np.add.reduceat(timing.rows["exposed"].astype(np.float64), starts)
    worst = np.argsort(-blocked, kind="stable")[:most].tolist()
    parts = (_part(timing, int(starts[index]), int(ends[index])) for index in worst)
    texts = group_texts(groups)
    lines = [_summary(part, groups, texts) for part in parts]
    return lines, len(starts) - len(lines)


def caused(timing: Waits) -> tuple[Integers, Vector]:
    """Return per cell the last-arriving rank (-1: unknown) and the other ranks' wait in seconds."""
    if not len(timing.rows):
        return timing.last_rank, timing.wait
    return timing.last_rank, np.add.reduceat(np.nan_to_num(timing.wait), timing.first)


def bus_bytes_per_second(op: Op, size: int, sent: float, seconds: float) -> float | None:
    """Return the bus bandwidth of `size` ranks that each passed `sent` bytes; None if undefined.

    Factors on S/t: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md. The S of an
    all-gather is the whole result, `size` times the bytes that each rank passes.
    """
    ring = (size - 1) / size if size else 0.0
    factors = {
        Op.ALL_REDUCE: 2 * ring,
        Op.REDUCE_SCATTER: ring,
        Op.ALL_GATHER: ring * size,
        Op.ALL_TO_ALL: ring,
        Op.BROADCAST: 1.0 if size > 1 else 0.0,
    }
    moved = factors.get(op, 0.0) * sent
    return moved / seconds if moved > 0 and seconds > 0 else None


def grouped_medians(keys: Integers, values: Floats) -> tuple[Integers, Vector, Integers]:
    """Return the distinct `keys` in rising order, each key's high median value, and the counts."""
    order = np.lexsort([values, keys])
    names, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    return names, values[order][starts + counts // 2].astype(np.float64), counts


def _ordered(rows: Rows) -> Rows:
    """Return the rows sorted by group, op, step and rank, each once."""
    keys = ("group", "op", "step", "rank")
    rows = chosen(rows, np.lexsort([rows[name] for name in reversed(keys)]))
    changed = _changes(rows, keys)
    return chosen(rows, np.append(changed[1:], True)) if len(rows) else rows


def _cells(rows: Rows) -> tuple[Integers, Integers]:
    """Return each row's (group, op, step) number, and the first row of each number."""
    changed = _changes(rows, ("group", "op", "step"))
    return np.cumsum(changed) - 1, np.flatnonzero(changed)


def _changes(rows: Rows, names: tuple[str, ...]) -> Mask:
    """Return where a row differs from the previous row."""
    changed = np.zeros(len(rows), dtype=np.bool_)
    changed[:1] = True
    for name in names:
        changed[1:] |= rows[name][1:] != rows[name][:-1]
    return changed


def _comparable(rows: Rows, first: Integers, groups: Mapping[int, Group]) -> Mask:
    """Return the cells (cells,) that all members of a known group reported with equal calls."""
    heads = rows[first]
    numbers, where = np.unique(heads["group"], return_inverse=True)
    nothing = Group(0, "")
    sizes = np.array([groups.get(number, nothing).size for number in numbers.tolist()])[where]
    members = np.diff(np.append(first, len(rows)))
    alike = np.maximum.reduceat(rows["count"], first) == np.minimum.reduceat(rows["count"], first)
    sends, receives = (heads["op"] == op for op in _POINT_TO_POINT)
    return np.asarray((members == sizes) & alike & ~(sends | receives))


def _part(timing: Waits, low: int, high: int) -> Waits:
    """Return the timing of rows `low` to `high` alone."""
    cells = slice(int(timing.cell[low]), int(timing.cell[high - 1]) + 1)
    return Waits(
        rows=timing.rows[low:high],
        transfer=timing.transfer[low:high],
        wait=timing.wait[low:high],
        cell=timing.cell[low:high] - cells.start,
        first=timing.first[cells] - low,
        last_rank=timing.last_rank[cells],
    )


def _summary(part: Waits, groups: Mapping[int, Group], texts: Mapping[int, str]) -> Collective:
    rows, head = part.rows, part.rows[0]
    op, number = Op(int(head["op"])), int(head["group"])
    group = groups.get(number)
    is_timed = ~np.isnan(part.transfer)
    size = group.size if group is not None and group.size else None
    last_arriver, ratio = _last_arriver(part)
    bandwidth = None
    if is_timed.any() and size is not None:
        sent, seconds = rows["bytes"][is_timed].sum(), part.transfer[is_timed].sum()
        bandwidth = bus_bytes_per_second(op, size, float(sent), float(seconds))
    return Collective(
        op=op,
        group=number,
        ranks=texts.get(number, ""),
        size=size,
        members_seen=len(np.unique(rows["rank"])),
        steps=len(part.first),
        evaluated_steps=int((part.last_rank >= 0).sum()),
        calls=float(rows["count"].mean()),
        bytes=float(rows["bytes"].mean()),
        exposed_seconds=float(rows["exposed"].mean(dtype=np.float64)),
        transfer_seconds=float(part.transfer[is_timed].mean()) if is_timed.any() else None,
        arrival_skew_seconds=float(part.wait[is_timed].mean()) if is_timed.any() else None,
        last_arriver=last_arriver,
        last_arriver_ratio=ratio,
        bus_bytes_per_second=bandwidth,
    )


def _last_arriver(part: Waits) -> tuple[int | None, float | None]:
    """Return the rank that made other ranks wait longest, and its share in the total wait."""
    ranks, seconds = caused(part)
    is_known = ranks >= 0
    total = float(seconds[is_known].sum())
    if total <= 0:
        return None, None
    names, where = np.unique(ranks[is_known], return_inverse=True)
    sums = np.bincount(where, weights=seconds[is_known])
    worst = int(np.argmax(sums))
    return int(names[worst]), float(sums[worst]) / total
