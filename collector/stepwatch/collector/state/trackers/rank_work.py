"""Whether the process of a rank that makes no progress is at work, from counters outside it."""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.folding.turns import turns
from stepwatch.signals.arrays import Integers, Mask, Matrix, Rows, Vector
from stepwatch.signals.clock import NANOSECONDS

CPU_RATIO = 0.1
"""CPU seconds, used or waited for, per second: threads of loggers and of the hooks take 1 to 3 %, a
rank that evaluates or serialises on a shared core takes more than a quarter."""
BYTES_PER_SECOND = 1024.0
"""Heartbeats of a store are a hundred bytes a second; the slowest download that is worth a wait
carries more."""
BYTES_SHARE = 0.75
"""Share of a window's intervals in which bytes move: a logger's process reads and sends in bursts,
one second in fifteen."""
WINDOW_SECONDS = 3.0
"""Shortest window that says whether a rank is at work: a clock tick is 10 ms, so a tenth of it is
thirty."""
WINDOW_INTERVALS = 3
"""Fewest intervals of a window: between rare readings one burst is a whole interval."""


class Work(IntFlag):
    """What the process of a rank does, in the newest two windows since the rank moved.

    A logger, or a thread that looks after something once a minute, works in one window alone.
    """

    NONE = 0
    CPU = 1
    CHILDREN = 2
    """Processes that it started use a CPU."""
    BYTES = 4
    """It, or a process that it started, reads, writes, receives or sends."""


class RankWork(NamedTuple):
    """The work of one rank. `kinds` is None while no window is complete, or without CPU time.

    `cpu_ratio` is in CPUs, NaN where unknown; `worked_ns` the monotonic moment at which the rank
    was last seen at work, or moved; `carried_ns` that at which its bytes were last seen to move
    since it moved, 0 without.
    """

    kinds: Work | None
    cpu_ratio: float
    worked_ns: int
    carried_ns: int


UNKNOWN_WORK = RankWork(None, float("nan"), 0, 0)

_COUNTERS = ("cpu_seconds", "run_queue_seconds", "children_cpu_seconds", "file_bytes", "tcp_bytes")
_COLUMNS = (
    *("time_ns", "moved_ns", *_COUNTERS),
    *("cpu", "children", "moving", "intervals", "seconds"),  # of the window under way
    *("worked_ns", "carried_ns", "kinds", "ratio"),  # as RankWork has them
    "newest",  # kinds of the newest complete window alone, NaN before the first
)
_AT = {name: place for place, name in enumerate(_COLUMNS)}
_READ = 2 + len(_COUNTERS)
_OPEN = slice(_AT["cpu"], _AT["seconds"] + 1)
_UNKNOWN = slice(_AT["kinds"], None)


class WorkWindows:
    """Windows of each rank's readings, one after the other; they begin anew when the rank moves.

    Readings of 0.9, 0.9 and 0.0 CPUs in three seconds are a window at 0.6 CPUs: the rank works if
    it did so in the window before, or if there is none before.
    """

    def __init__(self) -> None:
        self._values = np.zeros((0, len(_COLUMNS)))

    def resize(self, world: int) -> None:
        """Make room for `world` ranks; what is known stays."""
        more = np.zeros((world - len(self._values), len(_COLUMNS)))
        more[:, _UNKNOWN] = np.nan
        self._values = np.concatenate([self._values, more])

    def add(self, rows: Rows) -> None:
        """Take the readings of RANK_STATE rows, in their order."""
        readings = np.zeros((len(rows), _READ))
        readings[:, 0] = rows["time_ns"]
        readings[:, 1] = np.maximum(rows["since_ns"], rows["collective_since_ns"])
        for place, name in enumerate(_COUNTERS, 2):
            readings[:, place] = rows[name]
        with np.errstate(all="ignore"):  # whatever an agent may send
            for turn in turns(rows["rank"]):
                self._take(rows["rank"][turn], readings[turn])

    def of(self, rank: int) -> RankWork:
        """The work of a rank; unknown of one that did not report."""
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
        """Add an interval to the windows under way; a counter that is not known adds nothing."""
        counts = {name: grown[:, place] for place, name in enumerate(_COUNTERS, 2)}
        state[:, _AT["cpu"]] += counts["cpu_seconds"] + np.nan_to_num(counts["run_queue_seconds"])
        state[:, _AT["children"]] += np.maximum(np.nan_to_num(counts["children_cpu_seconds"]), 0.0)
        least = BYTES_PER_SECOND * passed
        moving = (counts["file_bytes"] >= least) | (counts["tcp_bytes"] >= least)
        state[:, _AT["moving"]] += moving & (passed > 0)
        state[:, _AT["intervals"]] += passed > 0
        state[:, _AT["seconds"]] += passed

    def _close(self, state: Matrix, time_ns: Vector) -> None:
        """End the windows that are long enough, and begin new ones.

        Work counts that this window and the one before it show; the first window counts alone.
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
