"""The newest HOST row per node in an attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.rows import chosen, put
from stepwatch.collector.state.readings import Subjects
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import DTYPES, Kind


class Neighbour(NamedTuple):
    """A process that is no rank, and its CPU use in CPUs, NaN if unknown."""

    name: str
    pid: int
    cpu_ratio: float


class NewestHosts(Mapping[str, np.void]):
    """HOST rows by node, for at most `limit` nodes."""

    def __init__(self, limit: int) -> None:
        self._nodes = Subjects(limit)
        self._rows: Rows = np.zeros(0, dtype=DTYPES[Kind.HOST])

    def put(self, nodes: Sequence[str], rows: Rows) -> None:
        """Store one row per node; the last row for a node wins."""
        places = self._nodes.numbered(nodes)
        if len(self._nodes) > len(self._rows):
            # A power of two: the length is the same whether it grows at once or in small steps.
            grown = np.zeros(max(8, 1 << (len(self._nodes) - 1).bit_length()), self._rows.dtype)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        accepted = np.flatnonzero(places >= 0)
        put(self._rows, places[accepted], chosen(rows, accepted))

    def neighbour(self, node: str) -> Neighbour | None:
        """Return the non-rank process with the highest CPU use, None if unknown."""
        row = self.get(node)
        if row is None:
            return None
        name = bytes(row["neighbour"]).decode("utf-8", "replace")
        used = float(row["neighbour_cpu_ratio"])
        is_known = name and math.isfinite(used)
        return Neighbour(name, int(row["neighbour_pid"]), used) if is_known else None

    def __getitem__(self, node: str) -> np.void:
        place = int(self._nodes.lookup([node])[0])
        if place < 0:
            raise KeyError(node)
        row: np.void = self._rows[place]
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
