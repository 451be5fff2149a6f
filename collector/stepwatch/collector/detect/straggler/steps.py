"""The evaluated steps: each phase's self time, and the reference from its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.peers import Peers, peer_seconds, peers_of
from stepwatch.collector.detect.steps import step_seconds
from stepwatch.collector.detect.straggler.costly import CostlyRank
from stepwatch.collector.state.evidence.step_window import IDLE, WORK, Window
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.signals.arrays import (
    FloatMatrix,
    Floats,
    Integers,
    Mask,
    Matrix32,
    Vector,
)


class SlowRank(NamedTuple):
    """A slow rank: its self time and its peers' per evaluated step, its start, and its slow steps.

    `shows` are the evaluated steps (indices) in which it is slow. `step_count` is the number of
    steps evaluated for an intermittently slow rank, 0 for a persistently slow one. `cost` is its
    accumulated evidence, None if that does not name it (yet). `by_steps` is whether the evaluated
    steps alone name it.
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
    """The evaluated steps of `ranks`: numbers and seconds (steps,), and their rows in `window`.

    `stages` defines the comparison groups; `baseline` maps a phase to seconds per step (ranks,).
    Ranks are columns of the window passed to `detect`; `numbers` holds their rank numbers.
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
        """Return the collective wait (steps, ranks) from evaluated step `since`."""
        return self.window.plane("collective", self.rows[since:])

    def self_time(self, phase: str, newest: int = 0) -> FloatMatrix:
        """Return self seconds (steps, ranks) in the `newest` evaluated steps; 0 means all."""
        return self.window.plane(phase, self.rows[-newest:])

    def busy(self, phase: str, newest: int = 0) -> FloatMatrix | None:
        """Return the part of self time with device work enqueued; None on the host's clock."""
        if self.window.clock != DEVICE:
            return None
        return self.self_time(phase, newest) - self.self_time(f"{phase}_idle", newest)

    def peers(self, self_seconds: FloatMatrix, *phases: str) -> FloatMatrix:
        """Return the reference for `self_seconds`, the seconds in all given phases."""
        if not len(self.stages.single_ranks):  # no rank needs a baseline
            return peer_seconds(self_seconds, self.stages, _NO_BASELINE)
        usual: Vector = np.sum([self._usual(phase) for phase in phases], axis=0)
        return peer_seconds(self_seconds, self.stages, usual)

    def around(self, ranks: Integers) -> EvaluatedSteps:
        """Return the same steps for the ranks in the stages of `ranks`."""
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
        """Return the baseline (ranks,), or the older evaluated steps' median where unknown."""
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
    """Return the `usable` steps (steps,) for all ranks in `window`.

    `numbers` (ranks,) are the rank numbers if these are not all ranks of the job.
    """
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
    """Return each step's seconds (steps,), less the excess work of `rank` over its peers."""
    part = steps.around(np.array([rank]))
    column = int(np.searchsorted(part.ranks, rank))
    excess = np.zeros(len(steps.step_seconds))
    for phase in WORK:
        self_seconds = part.self_time(phase)
        excess += np.maximum((self_seconds - part.peers(self_seconds, phase))[:, column], 0.0)
    return np.asarray(np.maximum(steps.step_seconds - excess, 0.0))
