"""A job's device-time outside steps: before, after and between its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwatch.collector.slo.registry import STALL_SECONDS, AttemptSteps
from stepwatch.collector.slo.waste import Run, Tail, tails_of
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.state.step_facts import LastStep, last_step


def standing(
    job: LiveJob, attempts: Mapping[RunKey, AttemptSteps], *, hangs: bool = False
) -> dict[RunKey, list[Tail]]:
    """Return the time outside steps per run: after its last step, or all of a run without steps.

    `attempts` are the runs with steps. In a job that `hangs`, no evaluation or save is under way.
    """
    runs = [(key, run) for key, (run, _) in job.runs().items()]
    following = [*(run for _, run in runs[1:]), None]
    return {
        key: [*tails_of(_run_record(run, attempts.get(key), later, hangs=hangs))]
        for (key, run), later in zip(runs, following, strict=True)
        if run.world and (key in attempts or run.lifecycle.began_s)
    }


def seen_until(job: LiveJob, tails: Iterable[Iterable[Tail]]) -> float:
    """Return the end of the known time of a job, Unix seconds.

    It is the newest step's end, or the end of the time outside steps.
    """
    return max([job.newest_s, *(tail.ends_s for of_run in tails for tail in of_run)])


def _run_record(
    run: Attempt, steps: AttemptSteps | None, later: Attempt | None, *, hangs: bool
) -> Run:
    last = None if steps is None else last_step(run, steps.steps.end_s)
    ended = last or LastStep(run.lifecycle.began_s, 0.0, 0.0)
    # Time after a finished run was not available to this job.
    held_since = None if later is None or run.outcome.finished else later.lifecycle.allocated_s
    goes_on = later is None and not hangs and run.outcome.over_s is None
    evaluated_s, saved_s = run.ranks.paused_s(run.first_offsets) if goes_on else (0.0, 0.0)
    return Run(
        devices=run.world,
        has_steps=last is not None,
        last_s=ended.end_s,
        last_unset_s=ended.end_s - ended.set_s,
        usual_s=ended.usual_s,
        over_s=run.outcome.over_s,
        seen_s=_seen_standing_s(run, ended.set_s) if later is None else None,
        next_began_s=None if later is None else later.lifecycle.began_s or None,
        next_allocated_s=None if held_since is None else held_since or None,
        finished=run.outcome.finished,
        evaluated_s=evaluated_s,
        saved_s=saved_s,
    )


def _seen_standing_s(run: Attempt, set_s: float) -> float | None:
    """Return an agent's last reading of a run, Unix seconds; None while the run progresses.

    Hosts may be some steps ahead of the last counted step, which is the devices' step.
    """
    moved = run.steps.newest_s - set_s if len(run.steps.history) else 0.0
    return run.outcome.seen_s if run.outcome.seen_s - moved > STALL_SECONDS else None
