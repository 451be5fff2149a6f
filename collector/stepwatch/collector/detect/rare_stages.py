"""Pipeline stages that are slow now and then: as a whole, or of one rank, so that they have no
peers.

A stage is compared with the others, each step by itself, as soon as each is taken over what it
usually works: sequences that are longer for all change nothing, and a stage with more layers is no
slower for it. Then stages can be exchanged, and how often the quieter half of them has long steps
says how rare these are by nature. Half, as a slow node may hold as many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.chance import log_alarms, log_among
from stepwatch.collector.analysis.pipeline_stages import known_stages, self_time, stage_work
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.peers import without_each
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.collector.state.trackers.steps.step_window import WORK, Window
from stepwatch.signals.arrays import Floats, Integers, Mask, MaskMatrix, Matrix, Vector

RARE_STEPS = 512
"""Newest steps looked at, where the jobs' windows hold as many."""
PHASES = tuple(name for name in WORK if name != "other")
"""What is compared: outside of all phases a rank may evaluate or save without saying so."""
USUAL_LONG_LOST, MOST_USUAL_LONG = 0.005, 0.01
"""Long steps of a healthy stage, as of a healthy rank: those of each level cost half a percent of
its time, one in a hundred at most, which counts as one long step of a quiet stage."""
LEAST_LOG_AMONG, LEAST_LOG_ALONE = 8.0, 7.0
"""That long steps hit this stage rather than the quiet ones by chance: e**-8, or e**-7 where these
had none, eleven of two stages. Only the window is known: of stages that are long four times in one,
each, the other has none in it often enough for eight to be found every other day."""
ALARMS_A_DAY = 0.01
_DAY_SECONDS = 86_400.0
_FEWEST = 3
_MOST_GAPS = 3.0
"""It goes on while the newest long step is no longer ago than so many times their mean distance."""


class RareStage(NamedTuple):
    """A stage that is slow in the steps at `hits` of the `window`, most in `phase`; these cost the
    share `lost` of the time since the first of them. `log_odds` is the logarithm of one over how
    often a day it would be by chance."""

    stage: int
    phase: str
    hits: Integers
    window: Window
    lost: float
    log_odds: float


def rare_stages(context: DetectionContext) -> list[RareStage]:
    """Those that are slow beyond chance in the newest steps of a job, the costliest first."""
    window = context.window
    if len(known_stages(window)) < 2 or not context.compares_ranks:
        return []
    few = window.at(np.flatnonzero(usable_steps(window)))
    if len(few.steps) < _FEWEST:
        return []
    if int((_excess(few) >= LEVELS[0]).sum(axis=0).max()) < _FEWEST - 1:
        return []  # nearly always
    window = context.attempt.window(RARE_STEPS)
    return find_rare(window.at(np.flatnonzero(usable_steps(window))))


def find_rare(window: Window) -> list[RareStage]:
    """The same of a `window` of usable steps."""
    excess, seconds = _excess(window), step_seconds(window)
    steps, stages = excess.shape
    steps_a_day = _DAY_SECONDS * steps / max(float(seconds.sum()), 1e-9)
    least = math.log(max(1.0, stages * len(LEVELS) / ALARMS_A_DAY))
    numbers, rare_by_column = np.unique(window.stage), dict[int, RareStage]()
    for level in LEVELS:
        usual = min(MOST_USUAL_LONG, USUAL_LONG_LOST / level)
        long = excess >= level
        odds = _log_odds(long, usual, steps_a_day)
        for column in np.flatnonzero(odds >= least).tolist():
            best = rare_by_column.get(column)
            if not _goes_on(long[:, column]) or (
                best is not None and best.log_odds >= odds[column]
            ):
                continue
            hits = np.flatnonzero(long[:, column])
            rare_by_column[column] = RareStage(
                stage=int(numbers[column]),
                phase=_phase(window, int(numbers[column]), hits),
                hits=hits,
                window=window,
                lost=_lost(seconds, hits),
                log_odds=float(odds[column]),
            )
    if rare_by_column:
        _add_those_like(
            max(rare_by_column, key=lambda column: rare_by_column[column].log_odds),
            excess,
            rare_by_column,
        )
    return sorted(rare_by_column.values(), key=lambda rare: -rare.lost)


def _add_those_like(surest: int, excess: Matrix, rare_by_column: dict[int, RareStage]) -> None:
    """Add stages that exceed the others by half of what the `surest` does in its hits: so those
    of one node are named together from the beginning."""
    surest_stage = rare_by_column[surest]
    means = excess[surest_stage.hits].mean(axis=0)
    numbers = np.unique(surest_stage.window.stage)
    for column in np.flatnonzero(means >= means[surest] / 2).tolist():
        if column not in rare_by_column:
            phase = _phase(surest_stage.window, int(numbers[column]), surest_stage.hits)
            rare_by_column[column] = surest_stage._replace(stage=int(numbers[column]), phase=phase)


def _excess(window: Window) -> Matrix:
    """By which share (steps, stages) more each stage works than usual, beyond what the others do:
    of an even number of these the lower of the two in the middle.

    Work 1, 2, 1 of usually 1, 1, 1 -> 0, 1, 0.
    """
    work = stage_work(self_time(window, PHASES), window.stage)
    usual = np.median(work, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.nan_to_num(work / usual, nan=1.0, posinf=1.0)
    typical_others = without_each(over, np.sort(over, axis=1), (over.shape[1] - 2) // 2)
    return np.asarray(over / np.maximum(typical_others, 1e-9) - 1.0)


def _log_odds(long: MaskMatrix, usual: float, steps_a_day: float) -> Vector:
    """Logarithm of one over how often a day each stage has such `long` steps (steps, stages) by
    chance, 0 where it has them no more than the others."""
    steps, stages = long.shape
    begun = long.copy()
    begun[1:] &= ~long[:-1]
    counts = begun.sum(axis=0)
    quiet = max(1, stages // 2)
    quiet_hits = int(np.sort(counts)[:quiet].sum())
    rate = (quiet_hits + 1.0) / (steps * quiet + 1.0 / usual)
    among = log_among(counts, quiet_hits + counts, np.full(stages, 1.0 / (quiet + 1.0)))
    log_odds, has_quiet_hits = np.zeros(stages), quiet_hits > 0
    needed = LEAST_LOG_AMONG if has_quiet_hits else LEAST_LOG_ALONE
    for column in np.flatnonzero((counts >= _FEWEST) & (among >= needed)).tolist():
        log_odds[column] = log_alarms(int(counts[column]), rate, steps, steps_a_day)
        if has_quiet_hits:
            log_odds[column] = min(
                log_odds[column], float(among[column]) - math.log(max(1.0, rate * steps_a_day))
            )
    return log_odds


def _goes_on(long: Mask) -> bool:
    hits = np.flatnonzero(long)
    gap = (hits[-1] - hits[0]) / max(1, len(hits) - 1)
    return bool(len(long) - 1 - hits[-1] <= _MOST_GAPS * gap)


def _phase(window: Window, stage: int, hits: Integers) -> str:
    """The phase that its long steps lose most in, against all of its steps."""
    members = window.stage == stage
    planes = [window.planes[name][:, members].mean(axis=1) for name in PHASES]
    more = [float(plane[hits].mean() - np.median(plane)) for plane in planes]
    return PHASES[int(np.argmax(more))]


def _lost(seconds: Floats, hits: Integers) -> float:
    """Share of the time since the first long step that long steps take more than usual ones."""
    more = np.maximum(seconds[hits] - np.median(seconds), 0.0)
    return float(more.sum() / seconds[hits[0] :].sum())
