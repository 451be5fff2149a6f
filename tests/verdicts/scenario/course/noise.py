"""Durations of healthy ranks: recorded times from real runs, resampled and spread."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Matrix, Vector
from tests.verdicts.scenario.course.layout import Layout
from tests.verdicts.scenario.plan import Pace, Scenario

RECORDED = Path(__file__).parents[3] / "data" / "verdicts" / "recorded_steps.npz"
"""Times in real runs over their medians: arrays (steps, ranks, columns as in `COLUMNS`)."""
COLUMNS = ("data", "forward", "backward", "optimizer", "transfer")
SHARES = np.array([0.03, 0.3, 0.5, 0.04, 0.06])
"""Shares of a usual step, by column; the rest is the time between steps."""
_BLOCK = 64
"""Consecutive steps that stay together, so that a lasting effect of the real machine lasts here."""
_AROUND = 9
"""Steps around a recorded step, whose median it is compared with."""
_LONGEST = np.array([8.0, 3.0, 3.0, 3.0, 2.0])
"""Longest times over their median, by column: beyond it a recorded process got no processor."""
_SPREAD = {Pace.CONSTANT: 0.1, Pace.RECORDED: 1.0, Pace.HEAVY_TAILED: 0.5}
"""Exponent of the recorded spread, by pace; 0.3 for the others."""
_JITTER = 0.03
_TAIL_SHARE, _TAIL_INDEX = 0.02, 2.0
"""One part in so many is longer by a Pareto factor of this index."""
TOKENS = 16_384
_EPOCH_SPREAD = 0.2
"""Spread of the times in which ranks begin an epoch, as a logarithm."""


Recording = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]
"""Times over their medians (steps, ranks, columns)."""


class Work(NamedTuple):
    """A step without faults: seconds (ranks, columns), and the tokens of each rank (ranks,)."""

    seconds: Matrix
    tokens: Vector


class WorkOfSteps(NamedTuple):
    """Several steps without faults: seconds (steps, ranks, columns), tokens (steps, ranks)."""

    seconds: Recording
    tokens: Matrix


@cache
def _recorded() -> list[Recording]:
    with np.load(RECORDED) as file:
        return [_without_lasting(file[name].astype(np.float64)) for name in sorted(file.files)]


def _without_lasting(run: Recording) -> Recording:
    """Return times over their medians of the steps around, without lasting slowness.

    Lasting slowness comes from another program on the real machine: such jobs are not healthy.
    """
    padded = np.pad(run, ((_AROUND // 2, _AROUND // 2), (0, 0), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _AROUND, axis=0)
    return np.asarray(np.minimum(run / np.median(windows, axis=-1), _LONGEST))


class Noise:
    """The steps of a scenario, in order; a fault does not change the draws."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._layout = Layout(scenario)
        self._dice = np.random.Generator(np.random.SFC64(scenario.seed))
        self._load_dice = np.random.Generator(np.random.SFC64([scenario.seed, 1]))
        runs = _recorded()
        self._run = runs[int(self._dice.integers(len(runs)))]
        self._speed = np.exp(0.005 * self._dice.standard_normal(scenario.ranks))
        self._seconds = np.ones((0, scenario.ranks, len(COLUMNS)))
        self._tokens = np.ones((0, scenario.ranks))
        self._position = self._drawn = 0

    def step(self) -> Work:
        """Return the next step; the caller may change its numbers."""
        work = self.steps(1)
        return Work(work.seconds[0], work.tokens[0])

    def steps(self, most: int) -> WorkOfSteps:
        """Return the next steps, at least one and at most `most`; the caller may change them."""
        if self._position == len(self._seconds):
            self._seconds, self._tokens = self._block()
            self._position = 0
        selection = slice(self._position, self._position + most)
        work = WorkOfSteps(self._seconds[selection], self._tokens[selection])
        self._position += len(work.tokens)
        return work

    def _block(self) -> tuple[Recording, Matrix]:
        """Return seconds of some steps (steps, ranks, columns), and their tokens (steps, ranks)."""
        scenario, dice = self._scenario, self._dice
        factors = self._resampled() ** _SPREAD.get(scenario.pace, 0.3)
        compute, tokens = self._lengths(len(factors))
        factors[:, :, 1:3] *= (compute * self._speed)[:, :, None]
        if scenario.pace is Pace.JITTERED:
            factors *= np.exp(_JITTER * dice.standard_normal(factors.shape))
        elif scenario.pace is Pace.HEAVY_TAILED:
            hit = dice.random(factors.shape) < _TAIL_SHARE
            factors[hit] *= np.minimum(1.0 + dice.pareto(_TAIL_INDEX, int(hit.sum())), 8.0)
        # A transfer ends for all ranks at once, so it has one time.
        factors[:, :, 4] = factors[:, :1, 4] * scenario.transfer_times
        seconds = factors * SHARES * scenario.step_seconds
        seconds[:, :, 0] += self._batch_delays(len(seconds))
        return seconds, tokens

    def _batch_delays(self, steps: int) -> Matrix:
        """Return the batch delays of the next steps in seconds (steps, ranks)."""
        loads, dice = self._scenario.loads, self._load_dice
        delays = np.zeros((steps, self._scenario.ranks))
        numbers = np.arange(self._drawn, self._drawn + steps)
        self._drawn += steps
        if loads.epoch_every:
            begins = (numbers > 0) & (numbers % loads.epoch_every == 0)
            spread = np.exp(_EPOCH_SPREAD * dice.standard_normal(delays.shape))
            delays += loads.epoch_seconds * spread * begins[:, None]
        if loads.stall_every:
            hit = np.flatnonzero(dice.random(steps) * loads.stall_every < 1.0)
            delays[hit, dice.integers(delays.shape[1], size=len(hit))] += loads.stall_seconds
        return delays

    def _lengths(self, steps: int) -> tuple[Matrix, Matrix]:
        """Return factors of each rank's compute for its sequences, and its reported tokens.

        Both have the shape (steps, ranks).
        """
        ranks, dice = self._scenario.ranks, self._dice
        usual = np.full((steps, ranks), float(TOKENS))
        replica = np.array(self._layout.replica)
        shape = (steps, int(replica.max()) + 1)
        if self._scenario.pace is Pace.TOKENS:
            share = dice.uniform(0.5, 1.5, shape)[:, replica]
            return share, np.round(usual * share)
        if self._scenario.pace is Pace.TWO_VALUED:
            return np.where(dice.random(shape) < 0.3, 1.6, 0.75)[:, replica], usual
        return np.ones((steps, ranks)), usual

    def _resampled(self) -> Recording:
        """Return some steps of the recorded run, from another moment for each node.

        Ranks of a node that were recorded together stay together: a program of the real machine
        takes processors from several ranks at once. All nodes are of one kind: a node that jitters
        more than the others for minutes is slower than they are, so it is not healthy.
        """
        per_node, blocks = self._scenario.ranks_per_node, []
        for _ in range(self._scenario.nodes):
            missing = per_node
            while missing:
                block = self._of_node()[:, :missing]
                blocks.append(block)
                missing -= block.shape[1]
        return np.concatenate(blocks, axis=1)

    def _of_node(self) -> Recording:
        """Return steps of the run from one moment (steps, ranks, columns), ranks in any order."""
        run, dice = self._run, self._dice
        start = dice.integers(len(run) - _BLOCK + 1)
        block: Recording = run[start : start + _BLOCK, dice.permutation(run.shape[1])]
        return block
