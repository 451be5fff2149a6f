"""The first stage of an evaluation: a job at one moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepwatch.collector.analysis.class_throughput import ClassThroughput
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.runtime.evaluation.job_state import has_ended, is_abandoned, is_stalled
from stepwatch.collector.runtime.evaluation.verdicts import Clocks, Verdicts
from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.registry import AttemptSteps
from stepwatch.collector.slo.standing import standing
from stepwatch.collector.slo.waste import Tail
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.signals.clock import NANOSECONDS, Clock


@dataclass(frozen=True)
class Observation:
    """A job at one moment, and the verdicts until then.

    `steps` are the counted steps by run, `tails` each run's time outside steps. An `abandoned` job
    has sent nothing for a day, so it has `ended`, too.
    """

    job: LiveJob
    previous: Verdicts
    objectives: Objectives
    clocks: Clocks
    context: DetectionContext
    steps: Mapping[RunKey, AttemptSteps]
    tails: Mapping[RunKey, Sequence[Tail]]
    ended: bool
    abandoned: bool

    @property
    def watched_from_s(self) -> float:
        """Monotonic time of this collector's first evaluation of the job; now, if it is this."""
        began = self.previous.watched_from_s
        return self.clocks.monotonic_s if math.isnan(began) else began


def observe(
    job: LiveJob,
    previous: Verdicts,
    objectives: Objectives,
    clock: Clock,
    class_throughput: ClassThroughput,
) -> Observation | None:
    """Return the job as it is now; None if it has ended and sent nothing since its evaluation."""
    clocks = Clocks(clock.wall_ns() / NANOSECONDS, clock.monotonic_ns() / NANOSECONDS)
    abandoned = is_abandoned(job.current, clocks.wall_s)
    open_incidents = previous.open_incidents()
    if previous.settled_at == job.received_s and not (abandoned and open_incidents):
        return None
    steps = attempt_steps(job)
    return Observation(
        job=job,
        previous=previous,
        objectives=objectives,
        clocks=clocks,
        context=DetectionContext(
            job,
            clocks.monotonic_s,
            class_throughput,
            wall_s=clocks.wall_s,
            thresholds=objectives.thresholds_for(job.current.job_class),
        ),
        steps=steps,
        tails=standing(job, steps, hangs=is_stalled(open_incidents)),
        ended=has_ended(job.current, clocks.wall_s),
        abandoned=abandoned,
    )
