"""Evidence on each rank, accumulated: which ranks are slow, how surely, and what they cost.

It takes no rows: `settled_steps` hands it each step once, when that is settled, as it stood then.
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
from stepwatch.collector.state.evidence.work_counts import WorkCounts
from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.collector.state.tracker import Batch, TrackedAttempt, Tracker
from stepwatch.collector.state.trackers.devices.device_steps import DeviceSteps
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.state.trackers.ranks import Ranks
from stepwatch.collector.state.trackers.steps.step_history import WARMUP_STEPS
from stepwatch.collector.state.trackers.steps.step_window import DEVICE, MAX_STAGES, StepClock
from stepwatch.collector.state.trackers.steps.steps import Steps
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
"""About so many steps make the usual work of a stage."""
SUSPECT_LOG = 12.0
"""Capital from which a rank is compared with those that are not suspected: a chance of e**-12 at
one moment, and nothing but what it seems to cost depends on it."""
_CELLS_AT_ONCE = 1 << 15
"""(step, rank) cells worked on at once: what a processor has at hand. It changes no outcome."""


class Settled(NamedTuple):
    """Steps that come next, settled just now: their seconds, their flags, and which of them `clock`
    timed (steps,).

    `stage` (ranks,) is what is known of stages then, `later` are rows that the rings hold already
    though they come later; steps from `held_from` on have not left the rings yet.
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
    """Capital of bets that a rank is slow, and what it cost over the newest ten minutes.

    `log_capital` (bets, units) is about all of its work together: a phase may differ surely, and
    cost nothing. 1.9 KB a rank in all. The ranks are the first units; behind them stand the nodes,
    `members` (nodes, size), with the mean of their ranks' work, where all ranks share one stage and
    all nodes are of one size: a node that is slow as a whole shows long before each of its ranks.

    On a device only steps that all devices timed whole are taken, and no step before the agents
    said of every rank where it runs, nor while some ranks count on devices and others on hosts.
    """

    given_back = True

    def __init__(self) -> None:
        self.arrangement: Arrangement | None = None
        """Another one begins anew; None before the first step."""
        self.log_capital: Matrix32 = _none_yet(0)
        self.buckets = Buckets(0, 0)
        self.long = LongSteps(0)
        """How often each unit began a run of long steps, ever."""
        self.counts = WorkCounts()
        self.members = np.zeros((0, 0), dtype=np.int64)
        self._stages: list[IntegerMatrix] = []
        self._too_many = False
        self._usual = np.zeros(0)
        self._usual_steps = 0
        self._warm_from = 0
        self._world = 0

    def apply(self, batch: Batch, attempt: TrackedAttempt) -> None:
        """Nothing: rows are not taken."""

    def resize(self, world: int) -> None:
        """Count the room for `world` ranks and their nodes."""
        self._world = world

    @property
    def cells(self) -> int:
        """What it holds at most, for the bound on live state."""
        return 36 * self._world

    @property
    def clock(self) -> StepClock | None:
        """The clock of its steps; None before the first."""
        return None if self.arrangement is None else self.arrangement.clock

    def settle(self, settled: Settled, attempt: TrackedAttempt) -> None:
        """Take steps that are settled: how many come in one call makes no difference."""
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
        """Take steps of ranks that are arranged like that."""
        if not len(cells.steps):
            return
        if self.arrangement is None or not self.arrangement.is_like(arrangement):
            self._begin(arrangement)
        for part in () if self._too_many else cells.alike():
            self._take(part, np.flatnonzero(part.reported[0]))

    def _beyond_warmup(self, steps: Integers, flags: Integers) -> Mask:
        """Which steps are beyond the warm-up after the newest start of a rank until then."""
        begins = np.where(flags & StepFlag.FIRST, steps + WARMUP_STEPS, 0)
        warm_from = np.maximum.accumulate(np.append(self._warm_from, begins))
        self._warm_from = int(warm_from[-1])
        return np.asarray(steps >= warm_from[1:])

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
        """Take steps that `ranks` reported, and nobody else."""
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
        """Work of `units` beyond the median one of their stage, in usual steps, and the seconds of
        a usual step (steps, units); 0 where a unit has no stage."""
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
        """Bet on each of `units` by its `excess`; who is suspected before each step."""
        factors = np.zeros((len(BETS), *excess.shape), dtype=np.float32)
        for members in stages:
            factors[:, :, members] = log_factors(picked(excess, members))
        capital = self.log_capital[:, units]
        suspects = np.zeros(excess.shape, dtype=np.bool_)
        if _most(capital, factors) < SUSPECT_LOG - 1.0:  # far more than sums are rounded by
            for row in range(len(excess)):  # as `carried`, which bounds it far above
                np.maximum(capital, 0.0, out=capital)
                capital += factors[:, row]
            self.log_capital[:, units] = capital
            return suspects
        for row in range(len(excess)):
            if capital.max(initial=0.0) >= SUSPECT_LOG:
                suspects[row] = capital.max(axis=0) >= SUSPECT_LOG
                for members in stages:  # beside one that is slow another one shows
                    factors[:, row, members] = log_factors_among(
                        excess[row][members], suspects[row][members]
                    )
            capital = carried(capital, factors[:, row])
        self.log_capital[:, units] = capital
        return suspects

    def _follow(self, ranks: IntegerMatrix, middle: Values) -> Matrix32:
        """The usual work (steps, stages) at each step, of stages of these `ranks` (stages, size).

        `middle` (steps, stages) is the work of the rank that others are compared with.
        """
        shares = [1.0 / min(self._usual_steps + row + 1, USUAL_STEPS) for row in range(len(middle))]
        usual_work: Matrix = np.empty((len(middle), len(ranks)))
        for stage, works in enumerate(middle.T.tolist()):
            usual = float(self._usual[ranks[stage, 0]])
            # As plain numbers: stages are few, and numpy takes ten times as long to begin.
            usual_work[:, stage] = [
                usual := usual + share * (now - usual)
                for share, now in zip(shares, works, strict=True)
            ]
        self._usual[ranks] = usual_work[-1][:, None]
        return usual_work.astype(np.float32)


def _most(capital: Matrix32, factors: Values) -> float:
    """What no capital (bets, units) exceeds while these `factors` (bets, steps, units) are bet."""
    gained = np.maximum(factors, 0.0).sum(axis=1)
    return float((np.maximum(capital, 0.0) + gained).max(initial=0.0))


_NOBODY = np.zeros((1, 1, 1), dtype=np.bool_)


def _none_yet(units: int) -> Matrix32:
    return np.zeros((len(BETS), units), dtype=np.float32)


def _places(stages: list[IntegerMatrix]) -> Integers:
    """Who has somebody to be compared with: all members of `stages`."""
    return np.concatenate([np.zeros(0, np.int64), *(members.ravel() for members in stages)])


def _at_once(rows: Integers, world: int) -> list[Integers]:
    size = max(1, _CELLS_AT_ONCE // world)
    return [rows[begin : begin + size] for begin in range(0, len(rows), size)]


def _entered(steps: Integers, reported: MaskMatrix, later: Fresh) -> MaskMatrix:
    """Cells (steps, ranks) that count: those `reported` to the host ring, without `later` rows."""
    if not len(later.rows):
        return reported
    place = np.minimum(np.searchsorted(steps, later.steps), len(steps) - 1)
    matches = steps[place] == later.steps
    reported[place[matches], later.rows["rank"][matches].astype(np.int64)] = False
    return reported


def _sum_of_phases(work: Values) -> Matrix32:
    """Work (steps, ranks) in all phases (phases, steps, ranks), in their order."""
    total: Matrix32 = work[0].copy()
    for phase in work[1:]:
        total += phase
    return total
