"""Whether a stalled rank's process is at work, from counters outside it."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.turns import turns
from stepwatch.signals.arrays import Integers, Mask, Matrix, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS

CPU_RATIO = 0.1
"""CPU seconds, used or waited for, per second, above which a rank works.

Threads for loggers and hooks take 1 to 3 %; a rank that evaluates or serialises on a shared core
takes more than a quarter.
"""
BYTES_PER_SECOND = 1024.0
"""Byte rate above which bytes count as work.

Store heartbeats are a hundred bytes a second; the slowest download worth waiting for carries more.
"""
BYTES_SHARE = 0.75
"""Least share of a window's intervals in which bytes move.

A logger's process reads and sends in bursts, one second in fifteen.
"""
WINDOW_SECONDS = 3.0
"""Shortest window that shows work: a clock tick is 10 ms, so a tenth of the window is thirty."""
WINDOW_INTERVALS = 3
"""Fewest intervals in a window: between rare readings one burst fills an interval."""


class Work(IntFlag):
    """Activity of a rank's process in the newest two windows since the rank moved.

    A logger, or a thread with a task once a minute, works in one window alone.
    """

    NONE = 0
    CPU = 1
    CHILDREN = 2
    """Child processes use a CPU."""
    BYTES = 4
    """The process or a child process reads, writes, receives or sends."""


class RankWork(NamedTuple):
    """One rank's work.

    `kinds` is None while no window is complete, or without CPU time. `cpu_ratio` is in CPUs, NaN if
    unknown. `worked_ns` is the last monotonic moment at which the rank worked or moved,
    `carried_ns` the last moment since then at which its bytes moved, 0 without one.
    """

    kinds: Work | None
    cpu_ratio: float
    worked_ns: int
    carried_ns: int


UNKNOWN_WORK = RankWork(None, float("nan"), 0, 0)

_COUNTERS = ("cpu_seconds", "run_queue_seconds", "children_cpu_seconds", "file_bytes", "tcp_bytes")
_COLUMNS = (
    *("time_ns", "moved_ns", *_COUNTERS),
    *("cpu", "children", "moving", "intervals", "seconds"),  # of the open window
    *("worked_ns", "carried_ns", "kinds", "ratio"),  # as in RankWork
    "newest",  # kinds in the newest complete window alone, NaN before the first
)
_AT = {name: place for place, name in enumerate(_COLUMNS)}
_READ = 2 + len(_COUNTERS)
_OPEN = slice(_AT["cpu"], _AT["seconds"] + 1)
_UNKNOWN = slice(_AT["kinds"], None)


class WorkWindows:
    """Consecutive windows over each rank's readings; they restart when the rank moves.

    Readings with 0.9, 0.9 and 0.0 CPUs in three seconds are a window at 0.6 CPUs: the rank works if
    it also worked in the previous window, or if there is none.
    """

    def __init__(self) -> None:
        self._values = np.zeros((0, len(_COLUMNS)))

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; existing values stay."""
        more = np.zeros((world - len(self._values), len(_COLUMNS)))
        more[:, _UNKNOWN] = np.nan
        self._values = np.concatenate([self._values, more])

    def add(self, rows: Rows) -> None:
        """Add the readings in RANK_STATE rows, in order."""
        readings = np.zeros((len(rows), _READ))
        readings[:, 0] = rows["time_ns"]
        readings[:, 1] = np.maximum(rows["since_ns"], rows["collective_since_ns"])
        for place, name in enumerate(_COUNTERS, 2):
            readings[:, place] = rows[name]
        with np.errstate(all="ignore"):  # an agent may send any value
            for turn in turns(rows["rank"]):
                self._take(rows["rank"][turn], readings[turn])

    def rank_work(self, rank: int) -> RankWork:
        """Return a rank's work; unknown without a report."""
        if not 0 <= rank < len(self._values):
            return UNKNOWN_WORK
        values = self._values[rank]
        kinds = float(values[_AT["kinds"]])
        work = None if np.isnan(kinds) else Work(int(kinds))
        moments = (int(values[_AT[name]]) for name in ("worked_ns", "carried_ns"))
        return RankWork(work, float(values[_AT["ratio"]]), *moments)

    def _take(self, ranks: Integers, readings: Matrix) -> None:
        state = self._values[ranks]
        grown = readings - state[:, :_READ]
        passed = grown[:, 0] / NANOSECONDS
        moved = (readings[:, 1] != state[:, 1]) | (passed < 0)
        self._grow(state, grown, passed)
        self._close(state, readings[:, 0])
        state[:, :_READ] = readings
        state[moved, _OPEN] = 0.0
        state[moved, _AT["worked_ns"]], state[moved, _AT["carried_ns"]] = readings[moved, 1], 0.0
        state[moved, _UNKNOWN] = np.nan
        self._values[ranks] = state

    def _grow(self, state: Matrix, grown: Matrix, passed: Vector) -> None:
        """Add an interval to the open windows; an unknown counter adds nothing."""
        counts = {name: grown[:, place] for place, name in enumerate(_COUNTERS, 2)}
        state[:, _AT["cpu"]] += counts["cpu_seconds"] + _known(counts["run_queue_seconds"])
        state[:, _AT["children"]] += np.maximum(_known(counts["children_cpu_seconds"]), 0.0)
        least = BYTES_PER_SECOND * passed
        moving = (counts["file_bytes"] >= least) | (counts["tcp_bytes"] >= least)
        state[:, _AT["moving"]] += moving & (passed > 0)
        state[:, _AT["intervals"]] += passed > 0
        state[:, _AT["seconds"]] += passed

    def _close(self, state: Matrix, time_ns: Vector) -> None:
        """Close the windows that are long enough, and open new ones.

        Work counts if this window and the previous one show it; the first window counts alone.
        """
        seconds, intervals = state[:, _AT["seconds"]], state[:, _AT["intervals"]]
        over: Mask = (seconds >= WINDOW_SECONDS) & (intervals >= WINDOW_INTERVALS)
        if not over.any():
            return
        ended = state[over]
        seconds, intervals = seconds[over], intervals[over]
        ratio = ended[:, _AT["cpu"]] / seconds
        kinds = Work.CPU * (ratio >= CPU_RATIO)
        kinds = kinds | Work.CHILDREN * (ended[:, _AT["children"]] >= CPU_RATIO * seconds)
        kinds = kinds | Work.BYTES * (ended[:, _AT["moving"]] >= BYTES_SHARE * intervals)
        unknown: Mask = np.isnan(ratio) & (kinds == 0)
        previous = ended[:, _AT["newest"]]
        confirmed = np.where(
            np.isnan(previous), kinds, kinds & np.nan_to_num(previous).astype(np.int64)
        )
        ended[:, _AT["newest"]] = np.where(unknown, np.nan, kinds)
        ended[:, _AT["kinds"]] = np.where(unknown, np.nan, confirmed)
        ended[:, _AT["ratio"]] = ratio
        for name, counted in (("worked_ns", ~0), ("carried_ns", int(Work.BYTES))):
            working = (confirmed & counted) > 0
            ended[working, _AT[name]] = time_ns[over][working]
        ended[:, _OPEN] = 0.0
        state[over] = ended


def _known(values: Vector) -> Vector:
    """Return the same as `numpy.nan_to_num`, which takes ten times as long for a few values."""
    return values if np.isfinite(values).all() else np.nan_to_num(values)
