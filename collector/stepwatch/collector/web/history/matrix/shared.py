"""The planes as bytes, for collectors that do not hold the job."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.collector.web.history.numbers import Column
from stepwatch.collector.web.history.packing import packed, unpacked
from stepwatch.signals.arrays import Integers

from .cells import bin_edges, cells
from .planes import Planes

SHARED_CELLS = 1 << 20
"""Maximum number of cells in the bytes; a large job's ranks are in bins."""


def packed_planes(planes: Planes) -> bytes:
    """Return the planes as bytes, with neighbouring ranks in bins if they are many."""
    count = planes.seconds.shape[1]
    edges = _rank_edges(planes, max(1, SHARED_CELLS // max(1, len(planes.steps))))
    seconds, slowest = planes.seconds, None
    if 0 < len(edges) - 1 < count:
        every, single = slice(0, len(planes.steps)), np.arange(len(planes.steps) + 1)
        largest, ranks = cells(planes, every, np.arange(count), edges, single)
        seconds, slowest = largest.T, ranks.T
    header = {"about": planes.about, "clock": planes.clock, "nodes": planes.nodes}
    columns: list[Column] = [
        planes.begins,
        planes.steps,
        planes.at,
        np.ascontiguousarray(seconds, dtype=np.float32),
        edges[:-1],
        edges[1:] - 1,
        _of_bins(planes.node, edges),
        _of_bins(planes.stage, edges),
    ]
    return packed(header, columns if slowest is None else [*columns, slowest])


def _rank_edges(planes: Planes, most: int) -> Integers:
    """Return the edges of at most `most` bins of ranks; a bin has one node and stage if possible.

    Ranks 0 to 5 on two nodes of three, at most four bins: 0 to 2, and 3 to 5. More nodes than bins:
    some bins hold ranks of several nodes.
    """
    count = planes.seconds.shape[1]
    if count <= most:
        return np.arange(count + 1)
    places = np.stack([planes.node, planes.stage])
    begins = np.flatnonzero(np.append(True, (places[:, 1:] != places[:, :-1]).any(axis=0)))
    if len(begins) > most:
        return bin_edges(count, most)
    return np.union1d(begins, bin_edges(count, most - len(begins) + 1))


def _of_bins(numbers: Integers, edges: Integers) -> Integers:
    """Return the number that all ranks of a bin have, -1 where they differ."""
    if len(edges) < 2:
        return numbers[:0]
    least, most = (kind.reduceat(numbers, edges[:-1]) for kind in (np.minimum, np.maximum))
    return np.where(least == most, least, -1)


def read_planes(value: Any) -> Planes:
    """Return the planes in an answer of either view."""
    if isinstance(value, Planes):
        return value
    header, (begins, steps, at, seconds, first, last, node, stage, *rest) = unpacked(value)
    return Planes(
        **header,
        begins=begins,
        steps=steps,
        at=at,
        seconds=seconds,
        first=first,
        last=last,
        slowest=rest[0] if rest else None,
        node=node,
        stage=stage,
    )
