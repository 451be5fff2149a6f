"""The runs before a resume, and the checkpoint that it began from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob, restart_step
from stepwatch.collector.state.trackers.steps.step_history import BASELINE_STEPS, WARMUP_STEPS
from stepwatch.signals.arrays import Vector


class Resume(NamedTuple):
    """An attempt that continues from `step`.

    `earlier` are the runs before it, newest first, each with the first of its steps that a run up
    to this one did again. `oldest` is the job's first run that is known.
    """

    attempt: Attempt
    step: int
    earlier: Sequence[tuple[Attempt, int]]
    oldest: Attempt

    @property
    def path(self) -> str:
        """The checkpoint as the resume reported it, or the path of its save; empty if unknown.

        A report may be the beginning of a path only. A save has the number of the step that comes
        next, or of the step that ended last. An agent may verify it after the resume.
        """
        reported = self.attempt.lifecycle.resumed_path
        for step in (self.step, self.step - 1):
            for run in (*(run for run, _ in self.earlier), self.attempt):
                saved = run.checkpoints.by_step.get(step)
                if saved is not None and saved.path and saved.path.startswith(reported):
                    return saved.path
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
    """Return the resume of each attempt that reported one, by the attempt's number."""
    runs = [(number, run) for (number, _), (run, _) in job.runs().items()]
    resumes = {}
    for place, (number, run) in enumerate(runs):
        step = run.lifecycle.resumed_from
        if step is not None and job.attempts[number] is run:
            earlier = _earlier([other for _, other in runs[:place]], step)
            resumes[number] = Resume(run, step, earlier, runs[0][1])
    return resumes


def _earlier(runs: Sequence[Attempt], step: int) -> list[tuple[Attempt, int]]:
    """Return the runs newest first, each with the first of its steps that was done again.

    Runs of the steps 0 to 40, 20 to 30, and a resume from 25: the second counts before step 25, the
    first before step 20.
    """
    earlier = []
    for run in reversed(runs):
        earlier.append((run, step))
        restart = restart_step(run)
        step = step if restart is None else min(step, restart)
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
