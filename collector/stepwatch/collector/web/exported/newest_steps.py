"""Stage, device and collective metrics over the newest steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from stepwatch.collector.analysis.blocked_by_operation import blocked_by_operation
from stepwatch.collector.analysis.device_use import device_use
from stepwatch.collector.analysis.newest_steps import (
    MAX_CELLS,
    newest_window,
    waits_of,
    without_first,
)
from stepwatch.collector.analysis.pipeline_stages import pipeline
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_clock import step_timing
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.signals import names

from .families import Sample, gauge

MOST_STAGES = 64
"""Maximum number of pipeline stages exported; a larger pipeline exports none."""
DEVICE_STEPS = 8
"""Number of newest steps in device and collective gauges."""


def newest_steps(jobs: Sequence[tuple[LiveJob, Verdicts]]) -> Iterator[Metric]:
    """Yield stage and device use, host lead, and collective times over the newest steps."""
    yield from _stages(jobs)
    yield from _devices(jobs)
    yield from _collectives(jobs)


def _stages(jobs: Sequence[tuple[LiveJob, Verdicts]]) -> Iterator[Metric]:
    """Yield stage idle times for jobs with pipeline stages."""
    idle: list[Sample] = []
    for job, _ in jobs:
        # Without pipeline stages, skip copying the window.
        last = int(job.current.stages.max(initial=0))
        summary = pipeline(newest_window(job.current)) if 0 < last < MOST_STAGES else None
        for stage in summary.stages if summary else ():
            idle.append(((job.name, str(stage.stage)), stage.bubble_ratio))
    yield gauge(names.STAGE_IDLE, idle)


def _devices(jobs: Sequence[tuple[LiveJob, Verdicts]]) -> Iterator[Metric]:
    """Yield device gauges for jobs with device-timed steps."""
    uses = [
        (job.name, device_use(without_first(job.current.window(DEVICE_STEPS))))
        for job, _ in jobs
        if step_timing(job.current).clock == DEVICE
    ]
    yield gauge(names.DEVICE_IDLE, [((name,), use.idle_ratio) for name, use in uses])
    yield gauge(names.HOST_LEAD, [((name,), use.host_lead_seconds) for name, use in uses])


def _collectives(jobs: Sequence[tuple[LiveJob, Verdicts]]) -> Iterator[Metric]:
    """Yield collective times by operation and part; 100,000 ranks use only the newest step."""
    samples: list[Sample] = []
    for job, _ in jobs:
        attempt = job.current
        affordable = max(1, MAX_CELLS // max(1, attempt.world))
        window = without_first(attempt.window(min(DEVICE_STEPS, affordable)))
        cells = len(window.steps) * attempt.world
        for operation, parts in blocked_by_operation(waits_of(attempt, window), cells).items():
            for part, seconds in parts._asdict().items():
                samples.append(((job.name, operation, part.replace("_", "-")), seconds))
    yield gauge(names.JOB_COLLECTIVE, samples)
