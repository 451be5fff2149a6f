"""The runs before a resume, and the checkpoint that it began from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.restarts import Restart
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.signals.arrays import Vector


class Resume(NamedTuple):
    """An attempt that continues from `step`.

    `earlier` are the runs before it with numbers like `step`, newest first, each with the first of
    its steps that a run up to this one did again. `oldest` is the job's first run that is known.
    `shift` is what the attempt's own numbers lack if it counts from zero again.
    """

    attempt: Attempt
    step: int
    earlier: Sequence[tuple[Attempt, int]]
    oldest: Attempt
    shift: int = 0

    @property
    def path(self) -> str:
        """The checkpoint as the resume reported it, or the path of its save; empty if unknown.

        A report may be the beginning of a path, or its last part. A save has the number of the step
        that comes next, or of the step that ended last. An agent may verify it after the resume.
        """
        reported = self.attempt.lifecycle.resumed_path
        for step in (self.step, self.step - 1):
            for run in (*(run for run, _ in self.earlier), self.attempt):
                saved = run.checkpoints.by_step.get(step)
                path = "" if saved is None else saved.path
                if path and (path.startswith(reported) or path.endswith(f"/{reported}")):
                    return path
        return reported

    def losses_before(self, count: int) -> Vector:
        """Return the newest finite losses before the step (at most `count`,), oldest first."""
        parts: list[Vector] = []
        missing = count
        for run, end in self.earlier:
            history = run.steps.history
            losses = history.rows["loss"][: max(0, end - history.held_from)]
            parts.insert(0, losses[np.isfinite(losses)][-missing:])
            missing -= len(parts[0])
            if missing <= 0:
                break
        return np.concatenate(parts) if parts else np.zeros(0)


def resumes_of(job: LiveJob) -> dict[int, Resume]:
    """Return the resume of each attempt that reported one or loaded a known save, by its number."""
    restarts = [(run, restart) for _, run, restart in job.restarts()]
    resumes = {}
    for place, (run, restart) in enumerate(restarts):
        anew = restart.series != restart.base
        known = restart.is_certain and (anew or run.lifecycle.resumed_from is not None)
        if known and restart.step is not None and job.attempts[run.number] is run:
            earlier = _earlier(restarts[:place], restart.base, restart.step)
            shift = restart.step - run.steps.history.first if anew else 0
            resumes[run.number] = Resume(run, restart.step, earlier, restarts[0][0], shift)
    return resumes


def _earlier(
    restarts: Sequence[tuple[Attempt, Restart]], series: int, step: int
) -> list[tuple[Attempt, int]]:
    """Return the runs of one series, newest first, each with its first step that was done again.

    Runs of the steps 0 to 40, 20 to 30, and a resume from 25: the second counts before step 25, the
    first before step 20.
    """
    earlier = []
    for run, restart in reversed(restarts):
        if restart.series == series:
            earlier.append((run, step))
        if restart.base == series and restart.step is not None:
            step = min(step, restart.step)
    return earlier


def first_losses(attempt: Attempt) -> Vector:
    """Return the known losses of an attempt's first steps, the ones that stay in memory.

    A step counts once as many ranks reported its loss as any other of these steps.
    """
    _, rows = attempt.steps.history.part(slice(WARMUP_STEPS + BASELINE_STEPS))
    known = np.isfinite(rows["loss"])
    known &= rows["loss_ranks"] == rows["loss_ranks"].max(initial=0)
    losses: Vector = rows["loss"][known]
    return losses
