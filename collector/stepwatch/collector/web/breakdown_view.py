"""Breakdown of an attempt's newest steps as JSON: step time, stages, what-if, collectives.

All times are on one clock, which `timing` names. Microbatches are from the newest sampled step.
"""

from __future__ import annotations

from typing import Any

from stepwatch.collector.analysis.device_use import device_use
from stepwatch.collector.analysis.newest_steps import newest_window, span_of, waits_of
from stepwatch.collector.analysis.pipeline_stages import complete_steps, pipeline
from stepwatch.collector.analysis.step_time_breakdown import (
    PARTS,
    StepTimeBreakdown,
    exposed,
    step_time_breakdown,
)
from stepwatch.collector.analysis.what_if import what_if
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.collective_timing import (
    Collective,
    summaries,
)
from stepwatch.collector.state.evidence.step_window import DEVICE, Window
from stepwatch.collector.state.step_clock import ranks_compare, step_timing
from stepwatch.collector.state.trackers.communication.microbatches import Microbatches
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.signals.records import OP_NAMES

MAX_COLLECTIVES = 128
"""Maximum number of lines per answer, longest blocked first; the rest is counted."""


def breakdown(attempt: Attempt) -> dict[str, Any]:
    """Return parts, pipeline, microbatches and what-if for the newest steps.

    Null or empty if unknown.
    """
    window = newest_window(attempt)
    waits = waits_of(attempt, window)
    complete = complete_steps(window)
    scenarios = (
        what_if(complete, exposed(complete, waits)) if ranks_compare(attempt, window.clock) else []
    )
    return {
        "timing": timing(attempt, window),
        "step_time_breakdown": _step_time(
            step_time_breakdown(window, exposed(window, waits)), window
        ),
        "pipeline": _pipeline(attempt, window),
        "microbatches": _microbatches(attempt),
        "what_if": [item._asdict() for item in scenarios],
    }


def timing(attempt: Attempt, window: Window) -> dict[str, Any]:
    """Return the clock of the steps in `window`, the reason for a host clock, and device use.

    `reason` is null on the device clock and where no rank reports one; unknown numbers are null.
    """
    devices = attempt.tracker(DeviceTiming).devices() if window.clock == DEVICE else []
    return {
        "clock": window.clock,
        "reason": None if window.clock == DEVICE else step_timing(attempt).reason or None,
        "devices": devices,
        **device_use(window)._asdict(),
    }


def _pipeline(attempt: Attempt, window: Window) -> dict[str, Any] | None:
    summary, schedule = pipeline(window), attempt.lifecycle.schedule
    if summary is None:
        return None
    return {
        **summary._asdict(),
        "stages": [stage._asdict() for stage in summary.stages],
        "schedule": None if schedule is None else schedule.name,
        "ideal_bubble_ratio": None if schedule is None else schedule.ideal_bubble_ratio,
    }


def _microbatches(attempt: Attempt) -> dict[str, Any] | None:
    sample = attempt.tracker(Microbatches).sample()
    timeline = None if sample is None else sample.microbatch_timeline
    if timeline is None:
        return None
    stages = [
        {
            **stage._asdict(),
            "microbatches": [cell._asdict() for cell in stage.microbatches],
            "chunks": [chunk._asdict() for chunk in stage.chunks],
        }
        for stage in timeline.stages
    ]
    return {**timeline._asdict(), "stages": stages}


def collectives(attempt: Attempt) -> dict[str, Any]:
    """Return the newest steps' collectives by operation and group."""
    window = newest_window(attempt)
    groups = attempt.collective_records.groups
    lines, left_out = summaries(waits_of(attempt, window), groups, MAX_COLLECTIVES)
    return {
        "attempt": attempt.number,
        "steps": span_of(window),
        "clock": window.clock,
        "collectives": [_line(line) for line in lines],
        "left_out": left_out,
    }


def _step_time(step_time: StepTimeBreakdown | None, window: Window) -> dict[str, Any] | None:
    if step_time is None:
        return None
    total = step_time.step_seconds
    shares = {name: step_time.seconds[name] / total if total > 0 else None for name in PARTS}
    return {**step_time._asdict(), "steps": span_of(window), "ratio": shares}


def _line(line: Collective) -> dict[str, Any]:
    return {**line._asdict(), "op": OP_NAMES[line.op]}
