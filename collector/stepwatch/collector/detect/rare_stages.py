"""Pipeline stages that are slow occasionally: as a whole, or with one rank and so without peers.

A stage is compared with the other stages, step by step, after dividing each by its usual work:
longer sequences for all stages change nothing, and a stage with more layers does not count as
slower. Then stages are interchangeable, and the rate of long steps in the quieter half shows how
rare they are by nature. Half, as a slow node may hold that many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import known_stages, self_time, stage_work
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.peers import without_each
from stepwatch.collector.detect.steps import step_seconds, usable_steps
from stepwatch.collector.state.evidence.long_steps import LEVELS
from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.collector.statistics.tails import FEWEST_EVENTS, log_among, log_odds_against_chance
from stepwatch.signals.arrays import Floats, Integers, Mask, MaskMatrix, Matrix, Vector

RARE_STEPS = 512
"""Number of newest steps evaluated, if the jobs' windows hold as many."""
PHASES = tuple(name for name in WORK if name != "other")
"""The compared phases: outside all phases a rank may evaluate or save without a mark."""
USUAL_LONG_LOST = 0.005
"""Long steps of a healthy stage or rank: each level's cost half a percent of its time.

This rate counts as one long step of a quiet stage.
"""
LEAST_LOG_AMONG, LEAST_LOG_ALONE = 8.0, 7.0
"""Minimum log odds against long steps hitting this stage by chance: e**-8, or e**-7.

The second value applies if the quiet stages had no long step: it takes eleven long steps with two
stages. Only the window is known: if two stages are each long four times per window on average, one
has none so often that a limit of eight would raise an alarm every other day.
"""
ALARMS_A_DAY = 0.01
_DAY_SECONDS = 86_400.0
_MOST_GAPS = 3.0
"""It persists while the newest long step is at most this many mean gaps ago."""


class RareStage(NamedTuple):
    """A stage that is slow in the steps at `hits` of the `window`, most in `phase`.

    These steps cost the share `lost` of the time since the first of them. `log_odds` is the
    logarithm of one over the expected number per day by chance.
    """

    stage: int
    phase: str
    hits: Integers
    window: Window
    lost: float
    log_odds: float

    @property
    def first_step(self) -> int:
        """Return the first of these steps."""
        return int(self.window.steps[self.hits[0]])

    @property
    def error(self) -> float:
        """Return the standard error of `lost`."""
        return self.lost / math.sqrt(len(self.hits))


def rare_stages(context: DetectionContext) -> list[RareStage]:
    """Return the stages that are slow beyond chance in a job's newest steps.

    The costliest stage comes first.
    """
    window = context.window
    if len(known_stages(window)) < 2 or not context.compares_ranks:
        return []
    few = window.select(np.flatnonzero(usable_steps(window)))
    if len(few.steps) < FEWEST_EVENTS:
        return []
    if int((_excess(few) >= LEVELS[0]).sum(axis=0).max()) < FEWEST_EVENTS - 1:
        return []  # nearly always
    window = context.attempt.window(RARE_STEPS)
    return find_rare(window.select(np.flatnonzero(usable_steps(window))))


def find_rare(window: Window) -> list[RareStage]:
    """Return the same for a `window` of usable steps."""
    excess, seconds = _excess(window), step_seconds(window)
    steps, stages = excess.shape
    steps_a_day = _DAY_SECONDS * steps / max(float(seconds.sum()), 1e-9)
    least = math.log(max(1.0, stages * len(LEVELS) / ALARMS_A_DAY))
    numbers, rare_by_column = np.unique(window.stage), dict[int, RareStage]()
    for level in LEVELS:
        usual = USUAL_LONG_LOST / level
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
    """Add stages whose mean excess in the hits of `surest` is at least half of its own.

    This names one node's stages together from the beginning.
    """
    surest_stage = rare_by_column[surest]
    means = excess[surest_stage.hits].mean(axis=0)
    numbers = np.unique(surest_stage.window.stage)
    for column in np.flatnonzero(means >= means[surest] / 2).tolist():
        if column not in rare_by_column:
            phase = _phase(surest_stage.window, int(numbers[column]), surest_stage.hits)
            rare_by_column[column] = surest_stage._replace(stage=int(numbers[column]), phase=phase)


def _excess(window: Window) -> Matrix:
    """Return by which share (steps, stages) each stage's work exceeds its usual work.

    The excess is counted beyond the other stages'; for an even number of them, beyond the lower of
    the two middle ones. Work 1, 2, 1 with usual 1, 1, 1 -> 0, 1, 0.
    """
    work = stage_work(self_time(window, PHASES), window.stage)
    usual = np.median(work, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.nan_to_num(work / usual, nan=1.0, posinf=1.0)
    typical_others = without_each(over, np.sort(over, axis=1), (over.shape[1] - 2) // 2)
    return np.asarray(over / np.maximum(typical_others, 1e-9) - 1.0)


def _log_odds(long: MaskMatrix, usual: float, steps_a_day: float) -> Vector:
    """Return the log odds against each stage having such `long` steps (steps, stages) by chance.

    The odds are one over the expected number per day; the logarithm is 0 for a stage without more
    long steps than the others.
    """
    steps, stages = long.shape
    begun = long.copy()
    begun[1:] &= ~long[:-1]
    counts = begun.sum(axis=0)
    quiet = max(1, stages // 2)
    quiet_hits = int(np.sort(counts)[:quiet].sum())
    rate = (quiet_hits + 1.0) / (steps * quiet + 1.0 / usual)
    return log_odds_against_chance(
        counts,
        log_among(counts, quiet_hits + counts, np.full(stages, 1.0 / (quiet + 1.0))),
        np.full(stages, rate),
        np.full(stages, steps),
        has_rate=np.full(stages, quiet_hits > 0),
        least=np.full(stages, LEAST_LOG_AMONG if quiet_hits else LEAST_LOG_ALONE),
        steps_a_day=steps_a_day,
    )


def _goes_on(long: Mask) -> bool:
    hits = np.flatnonzero(long)
    gap = (hits[-1] - hits[0]) / max(1, len(hits) - 1)
    return bool(len(long) - 1 - hits[-1] <= _MOST_GAPS * gap)


def _phase(window: Window, stage: int, hits: Integers) -> str:
    """Return the phase in which the long steps lose most, relative to all steps."""
    members = window.stage == stage
    planes = [window.planes[name][:, members].mean(axis=1) for name in PHASES]
    more = [float(plane[hits].mean() - np.median(plane)) for plane in planes]
    return PHASES[int(np.argmax(more))]


def _lost(seconds: Floats, hits: Integers) -> float:
    """Return the excess of long steps as a share of the time since the first one.

    The excess is relative to usual steps.
    """
    more = np.maximum(seconds[hits] - np.median(seconds), 0.0)
    return float(more.sum() / seconds[hits[0] :].sum())
