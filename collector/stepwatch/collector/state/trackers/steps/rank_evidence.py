"""Accumulated evidence per rank: which ranks are slow, the confidence, and the cost.

It reads no rows: `settled_steps` passes in each step once, as known when it is settled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.evidence.bets import (
    BETS,
    Values,
    carried,
    log_factors,
    log_factors_among,
)
from stepwatch.collector.state.evidence.buckets import Buckets
from stepwatch.collector.state.evidence.cells import (
    Arrangement,
    Cells,
    alike_nodes,
    cells_of,
    filled,
    median,
    picked,
    stages_by_size,
)
from stepwatch.collector.state.evidence.cost import step_costs
from stepwatch.collector.state.evidence.held_up import held_up
from stepwatch.collector.state.evidence.long_steps import LongSteps
from stepwatch.collector.state.evidence.step_window import MAX_STAGES
from stepwatch.collector.state.evidence.work_counts import WorkCounts
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.collector.step_clocks import DEVICE, StepClock
from stepwatch.signals.arrays import (
    IntegerMatrix,
    Integers,
    Mask,
    MaskMatrix,
    Matrix,
    Matrix32,
    SmallIntegers,
    Vector,
)
from stepwatch.signals.records import StepFlag

USUAL_STEPS = 64
"""Approximate number of steps that define a stage's usual work."""
SUSPECT_LOG = 12.0
"""Capital above which a rank is compared only with unsuspected ranks.

The chance at one moment is e**-12, and only the apparent cost depends on it.
"""
_CELLS_AT_ONCE = 1 << 15
"""(step, rank) cells processed at once, sized for the CPU cache; no effect on results."""


class Settled(NamedTuple):
    """The next settled steps; arrays (steps,): seconds, flags, and which steps `clock` timed.

    `stage` (ranks,) is the stages known at that time, `later` are newer rows already in the rings.
    Steps from `held_from` on are still in the rings.
    """

    clock: StepClock
    steps: Integers
    seconds: Vector
    flags: Integers
    timed: Mask
    stage: SmallIntegers
    later: Fresh
    held_from: int


class RankEvidence(Tracker):
    """Betting capital for the claim that a rank is slow, and its cost over the newest ten minutes.

    `log_capital` (bets, units) is about a rank's total work: a single phase may differ surely and
    cost nothing. 1.9 KB a rank in all. The ranks are the first units. Nodes follow, `members`
    (nodes, size), with their ranks' mean work, if all ranks share one stage and all nodes have one
    size: a slow node shows long before each of its ranks.

    With devices, only steps fully timed on all devices count. No step counts before the agents
    reported every rank's node, nor while some ranks use devices and others hosts.
    """

    given_back = True

    def __init__(self) -> None:
        self.arrangement: Arrangement | None = None
        """A different arrangement resets the evidence; None before the first step."""
        self.log_capital: Matrix32 = _none_yet(0)
        self.buckets = Buckets(0, 0)
        self.long = LongSteps(0)
        """Total starts of long steps per unit."""
        self.counts = WorkCounts()
        self.members = np.zeros((0, 0), dtype=np.int64)
        self._stages: list[IntegerMatrix] = []
        self._too_many = False
        self._usual = np.zeros(0)
        self._usual_steps = 0
        self._warm_from = 0
        self._world = 0

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Do nothing: no rows are used."""

    def resize(self, world: int) -> None:
        """Record the world size for the cell count."""
        self._world = world

    @property
    def cells(self) -> int:
        """Maximum number of cells, for the live-state limit."""
        return 36 * self._world

    @property
    def clock(self) -> StepClock | None:
        """The clock for its steps; None before the first."""
        return None if self.arrangement is None else self.arrangement.clock

    def settle(self, settled: Settled, attempt: TrackedAttempt) -> None:
        """Add settled steps; the split into calls makes no difference."""
        warm = self._beyond_warmup(settled.steps, settled.flags)
        ranks, hosts = attempt.tracker(Ranks), attempt.tracker(Steps).ring
        on_device = settled.clock == DEVICE
        timed_by = attempt.tracker(DeviceSteps).ring if on_device else hosts
        if not 1 < attempt.world == hosts.world == timed_by.world or not ranks.reported.all():
            return
        if not on_device and attempt.tracker(DeviceTiming).timed_ranks not in (0, attempt.world):
            return
        rows = np.flatnonzero(warm & (settled.steps >= settled.held_from) & settled.timed)
        if on_device:
            rows = rows[attempt.tracker(DeviceSteps).ring.timed_whole(settled.steps[rows])]
        arrangement = Arrangement(settled.clock, settled.stage, ranks.node_at)
        for chunk in _at_once(rows, attempt.world):
            steps = settled.steps[chunk]
            entered = _entered(steps, hosts.holds(steps), settled.later)
            self.take(
                arrangement, cells_of(steps, settled.seconds[chunk], timed_by, hosts, entered)
            )

    def take(self, arrangement: Arrangement, cells: Cells) -> None:
        """Add steps in the given arrangement."""
        if not len(cells.steps):
            return
        if self.arrangement is None or not self.arrangement.is_like(arrangement):
            self._begin(arrangement)
        for part in () if self._too_many else cells.alike():
            self._take(part, np.flatnonzero(part.reported[0]))

    def _beyond_warmup(self, steps: Integers, flags: Integers) -> Mask:
        """Return which steps are beyond the warm-up after the newest rank start so far.

        Profiled steps are not: the profile slows them.
        """
        begins = np.where(flags & StepFlag.FIRST, steps + WARMUP_STEPS, 0)
        warm_from = np.maximum.accumulate(np.append(self._warm_from, begins))
        self._warm_from = int(warm_from[-1])
        profiled = flags & StepFlag.PROFILED > 0
        return np.asarray((steps >= warm_from[1:]) & ~profiled)

    def _begin(self, arrangement: Arrangement) -> None:
        clock, stage, node = arrangement
        self.arrangement = Arrangement(clock, stage.copy(), node.copy())
        self.members = alike_nodes(stage, node)
        units = len(stage) + len(self.members)
        self.log_capital, self.buckets = _none_yet(units), Buckets(units, len(stage))
        self.counts, self.long = WorkCounts(), LongSteps(units)
        self._usual, self._usual_steps = np.zeros(units), 0
        self._too_many = len(np.unique(stage)) > MAX_STAGES
        self._stages = [] if self._too_many else stages_by_size(stage)

    def _take(self, cells: Cells, ranks: Integers) -> None:
        """Add steps that exactly `ranks` reported."""
        assert self.arrangement is not None
        stage = self.arrangement.stage
        complete = len(ranks) == len(stage)
        stages = self._stages if complete else stages_by_size(stage[ranks])
        work = cells.work if complete else np.take(cells.work, ranks, axis=2)
        tokens = cells.tokens if complete else np.take(cells.tokens, ranks, axis=1)
        total_work = self.counts.per_unit(_sum_of_phases(work), tokens, stages)
        longest, units, by_rank = total_work, ranks, stages
        if complete and len(self.members):
            units = np.arange(len(stage) + len(self.members))
            of_nodes = picked(total_work, self.members)
            longest = np.concatenate([total_work, of_nodes.max(axis=-1)], axis=1)
            total_work = np.concatenate([total_work, of_nodes.mean(axis=-1)], axis=1)
            stages = [*stages, len(ranks) + np.arange(len(self.members))[None, :]]
        excess, usual = self._excess(total_work, stages, units)
        suspects = self._bet(excess, stages, units)
        cost = np.zeros_like(total_work)
        for members in stages:
            together = suspects[:, members] if suspects.any() else _NOBODY
            cost[:, members] = step_costs(picked(longest, members), together)
        losses = held_up(work, excess[:, : len(ranks)], usual[:, : len(ranks)], by_rank)
        work = filled(cells, stage, ranks)
        compared = units[_places(stages)]
        begun = self.long.begun(excess, units, compared)
        self.buckets.add(cells, units, cost, work, begun, compared, losses)

    def _excess(
        self, total_work: Matrix32, stages: list[IntegerMatrix], units: Integers
    ) -> tuple[Matrix32, Matrix32]:
        """Return the excess work of `units` and the seconds of a usual step (steps, units).

        The excess is relative to the stage's median unit, in usual steps; 0 without a stage.
        """
        excess, seconds = np.zeros_like(total_work), np.zeros_like(total_work)
        for members in stages:
            together = picked(total_work, members)
            middle = median(together)
            usual = self._follow(units[members], middle[:, :, 0])[:, :, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                relative = (together - middle) / usual
            if not (usual > 0).all():
                relative = np.nan_to_num(relative, posinf=0.0, neginf=0.0)
            excess[:, members] = relative
            seconds[:, members] = usual
        self._usual_steps += len(total_work)
        return excess, seconds

    def _bet(self, excess: Matrix32, stages: list[IntegerMatrix], units: Integers) -> MaskMatrix:
        """Bet on each of `units` by its `excess`; return the suspects before each step."""
        factors = np.zeros((len(BETS), *excess.shape), dtype=np.float32)
        for members in stages:
            factors[:, :, members] = log_factors(picked(excess, members))
        capital = self.log_capital[:, units]
        suspects = np.zeros(excess.shape, dtype=np.bool_)
        if _most(capital, factors) < SUSPECT_LOG - 1.0:  # a margin far above rounding errors
            for row in range(len(excess)):  # as `carried`; the bound is far above
                np.maximum(capital, 0.0, out=capital)
                capital += factors[:, row]
            self.log_capital[:, units] = capital
            return suspects
        for row in range(len(excess)):
            if capital.max(initial=0.0) >= SUSPECT_LOG:
                suspects[row] = capital.max(axis=0) >= SUSPECT_LOG
                for members in stages:  # next to a slow rank another one becomes visible
                    factors[:, row, members] = log_factors_among(
                        excess[row][members], suspects[row][members]
                    )
            capital = carried(capital, factors[:, row])
        self.log_capital[:, units] = capital
        return suspects

    def _follow(self, ranks: IntegerMatrix, middle: Values) -> Matrix32:
        """Update and return the usual work (steps, stages) for stages with `ranks` (stages, size).

        `middle` (steps, stages) is the median rank's work.
        """
        shares = [1.0 / min(self._usual_steps + row + 1, USUAL_STEPS) for row in range(len(middle))]
        usual_work: Matrix = np.empty((len(middle), len(ranks)))
        for stage, works in enumerate(middle.T.tolist()):
            usual = float(self._usual[ranks[stage, 0]])
            # Plain numbers: stages are few, and a numpy call takes ten times as long.
            usual_work[:, stage] = [
                usual := usual + share * (now - usual)
                for share, now in zip(shares, works, strict=True)
            ]
        self._usual[ranks] = usual_work[-1][:, None]
        return usual_work.astype(np.float32)


def _most(capital: Matrix32, factors: Values) -> float:
    """Return an upper bound on the capital (bets, units) with `factors` (bets, steps, units)."""
    gained = np.maximum(factors, 0.0).sum(axis=1)
    return float((np.maximum(capital, 0.0) + gained).max(initial=0.0))


_NOBODY = np.zeros((1, 1, 1), dtype=np.bool_)


def _none_yet(units: int) -> Matrix32:
    return np.zeros((len(BETS), units), dtype=np.float32)


def _places(stages: list[IntegerMatrix]) -> Integers:
    """Return the positions of all units with peers: all members of `stages`."""
    return np.concatenate([np.zeros(0, np.int64), *(members.ravel() for members in stages)])


def _at_once(rows: Integers, world: int) -> list[Integers]:
    size = max(1, _CELLS_AT_ONCE // world)
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def _entered(steps: Integers, reported: MaskMatrix, later: Fresh) -> MaskMatrix:
    """Return the cells (steps, ranks) that count.

    These are the cells `reported` in the host ring, without `later` rows.
    """
    if not len(later.rows):
        return reported
    place = np.minimum(np.searchsorted(steps, later.steps), len(steps) - 1)
    matches = steps[place] == later.steps
    reported[place[matches], later.rows["rank"][matches].astype(np.int64)] = False
    return reported


def _sum_of_phases(work: Values) -> Matrix32:
    """Return the work (steps, ranks) summed over all phases (phases, steps, ranks), in order."""
    total: Matrix32 = work[0].copy()
    for phase in work[1:]:
        total += phase
    return total
