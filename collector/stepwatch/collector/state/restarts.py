"""Where each run of a job continues: in the steps of an earlier run, or in a series of its own.

A trainer that restores its step counter continues the numbers of the earlier runs. One that does
not counts from zero again after a resume, too: then the save that it loaded shows where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.loaded_paths import LoadedPaths
from stepwatch.signals.arrays import Integers, Vector

_ALIKE_STEPS = 3
"""First steps whose losses show that two runs began with the same weights and the same data."""
_ROUNDING = 1e-4
"""Part of a loss by which devices round differently from run to run."""
_FIRST_STEP = 1
"""Loops count from 0 or from 1, so a run that begins there has not restored its counter."""


class Restart(NamedTuple):
    """The numbers of one run's steps, and the step of earlier runs from which it does them again.

    Runs with one `series` number their steps alike. `step` is a number of the series `base`; None
    before a run's first step. Without `is_certain` it is the greatest one that is possible.
    """

    series: int
    base: int
    step: int | None
    is_certain: bool = True


def restart_step(attempt: Attempt) -> int | None:
    """Return an attempt's first step, as reported or as seen; None before it."""
    if attempt.lifecycle.resumed_from is not None:
        return attempt.lifecycle.resumed_from
    return attempt.steps.history.first if len(attempt.steps.history) else None


def restarts_of(runs: Sequence[Attempt]) -> list[Restart]:
    """Return where each run continues; `runs` are in order.

    A run of the steps 0 to 180 saved at 100 and at 160. A run that begins at step 160 has the same
    series. One that begins at step 0 has a series of its own: if it loaded the save of step 100, it
    does the steps from there on again, and if no load was seen, those from 160 on at least. If its
    first losses are those of the first run, it began anew and does all steps again.
    """
    restarts: list[Restart] = []
    series = 0
    for place, run in enumerate(runs):
        step = restart_step(run)
        loaded = saved = None
        if run.lifecycle.resumed_from is None and step is not None and step <= _FIRST_STEP:
            loaded = loaded_save(run, runs[:place])
            saved = loaded or _newest_save(runs[:place])
            if loaded is None and saved is not None and _begins_alike(run, runs[saved.place]):
                saved = None  # it did not load that save
        if saved is None:
            restarts.append(Restart(series, series, step))
            continue
        series += 1
        base = restarts[saved.place].series
        restarts.append(Restart(series, base, saved.step, is_certain=loaded is not None))
    return restarts


def _begins_alike(run: Attempt, earlier: Attempt) -> bool:
    """Return whether two runs have the same losses in the same first steps, and not in all."""
    steps, losses = _first_losses(run)
    earlier_steps, earlier_losses = _first_losses(earlier)
    if len(steps) < _ALIKE_STEPS or not np.array_equal(steps, earlier_steps):
        return False
    newest = earlier.steps.history.rows["loss"][-_ALIKE_STEPS:]
    return _are_close(losses, earlier_losses) and not _are_close(newest, earlier_losses)


def _first_losses(run: Attempt) -> tuple[Integers, Vector]:
    steps, rows = run.steps.history.part(slice(_ALIKE_STEPS))
    return steps, rows["loss"]


def _are_close(losses: Vector, others: Vector) -> bool:
    return len(losses) == len(others) and bool(np.allclose(losses, others, rtol=_ROUNDING))


def redone_of(restarts: Sequence[Restart]) -> list[int | None]:
    """Return the first step of each run that a later run did again; None without one."""
    earliest: dict[int, int] = {}
    redone: list[int | None] = []
    for restart in reversed(restarts):
        redone.append(earliest.get(restart.series))
        if restart.step is None:
            continue
        known = earliest.get(restart.base, restart.step)
        earliest[restart.base] = min(known, restart.step)
        earliest |= dict.fromkeys(range(restart.base + 1, restart.series), 0)
    return redone[::-1]


class Save(NamedTuple):
    """A save of an earlier run: the run's place in order, and the save's step."""

    place: int
    step: int


def is_resume(run: Attempt, earlier: Sequence[Attempt]) -> bool:
    """Return whether a run reported a resume, or loaded a save of the runs before it."""
    return run.lifecycle.resumed_from is not None or loaded_save(run, earlier) is not None


def loaded_save(run: Attempt, earlier: Sequence[Attempt]) -> Save | None:
    """Return the newest save in `earlier` whose path, or a file in it, a run loaded; else None."""
    paths = [PurePosixPath(path) for path in run.tracker(LoadedPaths).paths()]
    loaded = {str(place) for path in paths for place in (path, *path.parents)}
    for place in reversed(range(len(earlier)) if loaded else ()):
        saves = earlier[place].checkpoints.by_step.items()
        steps = [step for step, saved in saves if saved.path in loaded]
        if steps:
            return Save(place, max(steps))
    return None


def _newest_save(runs: Sequence[Attempt]) -> Save | None:
    """Return the newest save of the newest run with one; None without any."""
    for place in reversed(range(len(runs))):
        steps = [step for step in runs[place].checkpoints.by_step if step > _FIRST_STEP]
        if steps:
            return Save(place, max(steps))
    return None
