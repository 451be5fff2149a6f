"""Stepwatch's recording of a run, read from the collector's store and its API."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import Kind, make_rows

RECORDED_KINDS = (Kind.STEP, Kind.COLLECTIVE, Kind.CHECKPOINT)


class Recording(NamedTuple):
    """A run's recording: `rows` by rank and kind in the order of their numbers, `job` the
    collector's summary, `incidents` the top ones."""

    rows: dict[int, dict[Kind, Rows]]
    job: dict[str, Any]
    incidents: list[dict[str, Any]]

    def table(self, rank: int, kind: Kind) -> Rows:
        """Return the rows of one rank and kind, perhaps none."""
        rows = self.rows.get(rank, {}).get(kind)
        return make_rows(kind, 0) if rows is None else rows

    def seconds(self, rank: int, name: str) -> float:
        """Seconds that all steps of a rank spent in a phase or wait."""
        return float(self.table(rank, Kind.STEP)[f"{name}_ns"].sum()) / 1e9


def rows_of(store: Path, job: str) -> dict[int, dict[Kind, Rows]]:
    """Rows of a job that the store at `store` holds, by rank."""
    parts: dict[Kind, list[Rows]] = defaultdict(list)
    with closing(Store.sqlite(store)) as opened:
        for segment in opened.segments(job):
            for kind, rows in wire.decode(segment.payload).tables.items():
                if kind in RECORDED_KINDS:
                    parts[kind].append(rows)
    by_rank: dict[int, dict[Kind, Rows]] = defaultdict(dict)
    for kind, pieces in parts.items():
        together = np.concatenate(pieces)
        together = together[np.argsort(together["seq"], kind="stable")]
        for rank in np.unique(together["rank"]).tolist():
            by_rank[rank][kind] = together[together["rank"] == rank]
    return dict(by_rank)
