"""An attempt's newest saves by rank: the ranks that still block the training loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.ingest.validation import UNKNOWN
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import CheckpointEvent, Phase
from stepwatch.signals.wire import Rows

MAX_SAVES = 4
"""Maximum number of checkpoints per attempt, at 20 bytes a rank each."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


class CheckpointInFlight(NamedTuple):
    """One save; arrays (ranks,).

    `began_ns` is monotonic on the rank's node, 0 while unknown. `stall` is the loop's blocked time
    in seconds, NaN during the save and if unknown (then `began_ns` is 0). `self_seconds` is the
    rank's observed work in the save, without its wait for other ranks at the end. `failed` marks
    ranks that reported a failure.
    """

    step: int
    began_ns: np.ndarray[tuple[int], np.dtype[np.int64]]
    stall: Vector
    self_seconds: np.ndarray[tuple[int], np.dtype[np.float32]]
    failed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    reason: list[str]

    @property
    def in_progress(self) -> bool:
        """Whether the save still blocks some rank's loop."""
        return bool(((self.began_ns > 0) & np.isnan(self.stall)).any())


class CheckpointsInFlight:
    """The newest saves by step, newest begun last; `ended_s` is the last finished save's end."""

    def __init__(self) -> None:
        self.newest: dict[int, CheckpointInFlight] = {}
        self.ended_s = 0.0
        self._ended_step = -1

    def add(self, rows: Rows, world: int, to_wall_ns: int) -> None:
        """Add validated CHECKPOINT rows (`validation.checkpoints`).

        Rows that are not about a known rank's save are ignored.
        """
        about = np.isin(rows["event"], (CheckpointEvent.BEGIN, CheckpointEvent.FAILED))
        rows = rows[about & (rows["rank"] >= 0) & (rows["rank"] < world)]
        for step in np.unique(rows["step"])[-MAX_SAVES:].tolist():
            save = self._checkpoint(step, world)
            self._fold(save, rows[rows["step"] == step], to_wall_ns)

    def add_states(self, states: Rows) -> None:
        """Add RANK_STATE rows: the ranks' progress within a save."""
        if not self.newest:
            return
        save = list(self.newest.values())[-1]
        inside = (states["phase"] == Phase.CHECKPOINT) & (states["rank"] >= 0)
        rows = states[inside & (states["rank"] < len(save.stall))]
        rank = rows["rank"].astype(np.int64)
        began, since = save.began_ns[rank], rows["collective_since_ns"].astype(np.int64)
        waits = (rows["in_collective"] > 0) & (since >= began)
        worked = np.where(waits, since, rows["time_ns"].astype(np.int64)) - began
        is_timed = (began > 0) & np.isnan(save.stall[rank]) & (worked >= 0)
        save.self_seconds[rank[is_timed]] = worked[is_timed] / NANOSECONDS

    def _checkpoint(self, step: int, world: int) -> CheckpointInFlight:
        save = self.newest.get(step)
        if save is None or len(save.stall) != world:
            save = _empty(step, world)
            self.newest[step] = save
            while len(self.newest) > MAX_SAVES:
                del self.newest[next(iter(self.newest))]
        return save

    def _fold(self, save: CheckpointInFlight, rows: Rows, to_wall_ns: int) -> None:
        begins = rows[(rows["event"] == CheckpointEvent.BEGIN) & (rows["stall_ns"] == 0)]
        save.began_ns[begins["rank"]] = begins["time_ns"]
        ends = rows[rows["stall_ns"] > 0]
        is_known = ends["stall_ns"] != UNKNOWN
        save.stall[ends["rank"]] = np.where(is_known, ends["stall_ns"] / NANOSECONDS, np.nan)
        save.began_ns[ends["rank"][~is_known]] = 0
        # Hook measurements are exact; states are seen once a second.
        timed = ends[is_known & (ends["blocked_ns"] > 0) & (ends["blocked_ns"] <= ends["stall_ns"])]
        save.self_seconds[timed["rank"]] = (timed["stall_ns"] - timed["blocked_ns"]) / NANOSECONDS
        if len(ends):
            ended = (int(ends["time_ns"].max()) + to_wall_ns) / NANOSECONDS
            # Within one save the last rank counts; between saves the later one, even if a clock was
            # set.
            same_step = save.step == self._ended_step
            self.ended_s, self._ended_step = (
                max(self.ended_s if same_step else ended, ended),
                save.step,
            )
        failures = rows[rows["event"] == CheckpointEvent.FAILED]
        save.failed[failures["rank"]] = True
        if len(failures) and not save.reason:
            save.reason.append(bytes(failures["text"][0]).decode("utf-8", "replace"))


def _empty(step: int, world: int) -> CheckpointInFlight:
    unknown = np.full(world, np.nan)
    return CheckpointInFlight(
        step,
        np.zeros(world, dtype=np.int64),
        unknown,
        unknown.astype(np.float32),
        np.zeros(world, dtype=np.bool_),
        [],
    )
