"""The evaluated steps: self time of each phase, and that of the peers it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.peers import Peers, peer_seconds, peers_of
from stepwatch.collector.detect.steps import step_seconds
from stepwatch.collector.detect.straggler.evidence.costly import CostlyRank
from stepwatch.collector.state.trackers.steps.step_window import DEVICE, IDLE, WORK, Window
from stepwatch.signals.arrays import (
    FloatMatrix,
    Floats,
    Integers,
    Mask,
    MaskMatrix,
    Matrix32,
    Vector,
)


class SlowRank(NamedTuple):
    """A slow rank: its self time and its peers' per evaluated step, where it began, when it shows.

    `shows` are the evaluated steps (indices) that it is slow in; `of` how many were looked at for
    a rank that is slow intermittently, 0 for one that is slow persistently. `cost` is what
    accumulated evidence says of it, None where that names it not, or not yet. `by_steps` is whether
    the evaluated steps alone name it.
    """

    rank: int
    phase: str
    self_seconds: Floats
    peers: Floats
    since: int
    shows: Integers
    step_count: int = 0
    cost: CostlyRank | None = None
    by_steps: bool = False


@dataclass(frozen=True)
class EvaluatedSteps:
    """The evaluated steps of `ranks`: numbers and seconds (steps,), and their rows of `window`.

    `stages` says who is compared with whom; `baseline` maps a phase to seconds per step (ranks,).
    Ranks are columns of the window that `detect` was given; `numbers` says which ranks these are.
    """

    steps: Integers
    step_seconds: Vector
    rows: Integers
    window: Window
    ranks: Integers
    stages: Peers
    baseline: Mapping[str, Vector]
    numbers: Integers

    def collective(self, since: int) -> Matrix32:
        """Collective wait (steps, ranks) from evaluated step `since` on."""
        return self.window.plane("collective", self.rows[since:])

    def self_time(self, phase: str, newest: int = 0) -> FloatMatrix:
        """Self time in seconds (steps, ranks) of the `newest` evaluated steps; 0 means all."""
        return self.window.plane(phase, self.rows[-newest:])

    def busy(self, phase: str, newest: int = 0) -> FloatMatrix | None:
        """The part of `own` in which the device had work enqueued; None on the host's clock."""
        if self.window.clock != DEVICE:
            return None
        return self.self_time(phase, newest) - self.self_time(f"{phase}_idle", newest)

    def peers(self, self_seconds: FloatMatrix, *phases: str) -> FloatMatrix:
        """What `self_seconds`, the seconds in all of these phases, is compared with."""
        if not len(self.stages.single_ranks):  # nobody is compared with a baseline
            return peer_seconds(self_seconds, self.stages, _NO_BASELINE)
        usual: Vector = np.sum([self._usual(phase) for phase in phases], axis=0)
        return peer_seconds(self_seconds, self.stages, usual)

    def around(self, ranks: Integers) -> EvaluatedSteps:
        """The same over the ranks that `ranks` are compared with: those of their stages."""
        stage = self.window.stage
        if np.isin(ranks, self.stages.single_ranks).any():
            return self  # they are compared with all others
        chosen = np.flatnonzero(np.isin(stage, stage[ranks]))
        names = (*WORK, *IDLE, "host_lead") if self.window.clock == DEVICE else WORK
        planes = {name: self.window.planes[name][:, chosen] for name in names}
        return replace(
            self,
            ranks=self.ranks[chosen],
            window=self.window._replace(planes=planes, stage=stage[chosen]),
            stages=peers_of(stage[chosen]) or self.stages,
            baseline={name: seconds[chosen] for name, seconds in self.baseline.items()},
        )

    def _usual(self, phase: str) -> Vector:
        """The baseline (ranks,), or where it is unknown the median of the older evaluated steps."""
        plane, single_ranks = self.window.planes[phase], self.stages.single_ranks
        usual = self.baseline.get(phase, np.full(plane.shape[1], np.nan))
        if np.isnan(usual[single_ranks]).any():
            older = np.median(plane[self.rows[: max(1, len(self.rows) // 2)]], axis=0)
            usual = np.where(np.isnan(usual), older, usual)
        return usual


_NO_BASELINE = np.zeros(0)


def evaluated_steps(
    window: Window,
    usable: Mask,
    stages: Peers,
    baseline: Mapping[str, Vector],
    numbers: Integers | None = None,
) -> EvaluatedSteps:
    """The `usable` steps (steps,) of all ranks of `window`; `numbers` (ranks,) where they are not
    all ranks of the job."""
    every = np.arange(len(window.stage))
    return EvaluatedSteps(
        steps=window.steps[usable],
        step_seconds=step_seconds(window)[usable],
        rows=np.flatnonzero(usable),
        window=window,
        ranks=every,
        stages=stages,
        baseline=baseline,
        numbers=every if numbers is None else numbers,
    )


def seconds_without(rank: int, steps: EvaluatedSteps) -> Vector:
    """Seconds (steps,) that each step takes without what `rank` works longer than its peers."""
    part = steps.around(np.array([rank]))
    column = int(np.searchsorted(part.ranks, rank))
    excess = np.zeros(len(steps.step_seconds))
    for phase in WORK:
        self_seconds = part.self_time(phase)
        excess += np.maximum((self_seconds - part.peers(self_seconds, phase))[:, column], 0.0)
    return np.asarray(np.maximum(steps.step_seconds - excess, 0.0))


def exceeds(
    self_seconds: FloatMatrix,
    peers: FloatMatrix,
    step_seconds: Vector,
    ratio: float,
    excess_ratio: float,
) -> MaskMatrix:
    """Return where (step, rank) a rank's self time is too long, in both respects.

    `self_seconds` (steps, ranks) is at least `ratio` times the peers' seconds, and the excess is
    at least `excess_ratio` of the step.
    """
    excess = self_seconds - peers
    return np.asarray(
        (self_seconds >= ratio * peers)
        & (excess >= excess_ratio * step_seconds[:, None])
        & (step_seconds[:, None] > 0)
    )
