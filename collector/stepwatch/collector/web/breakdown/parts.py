"""Breakdown of an attempt's newest steps as JSON: step time, stages, what-if, collectives.

All times are on one clock, which `timing` names. Microbatches are from the newest sampled step.
"""

from __future__ import annotations

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
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.step_clock import ranks_compare, step_timing
from stepwatch.collector.state.trackers.communication.microbatch_timeline import StageTimes
from stepwatch.collector.state.trackers.communication.microbatches import Microbatches
from stepwatch.collector.state.trackers.devices.device_timing import DeviceTiming
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.collector.web.schema import breakdown as schema
from stepwatch.collector.web.schema.breakdown import Breakdown, Collectives, Timing, WhatIf
from stepwatch.collector.web.schema.common import as_row
from stepwatch.signals.records import OP_NAMES

MAX_COLLECTIVES = 128
"""Maximum number of lines per answer, longest blocked first; the rest is counted."""


def breakdown(attempt: Attempt) -> Breakdown:
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
        "what_if": [as_row(WhatIf, item) for item in scenarios],
    }


def timing(attempt: Attempt, window: Window) -> Timing:
    """Return the clock of the steps in `window`, the reason for a host clock, and device use.

    `reason` is null on the device clock and where no rank reports one; unknown numbers are null.
    """
    devices = attempt.tracker(DeviceTiming).devices() if window.clock == DEVICE else []
    use = device_use(window)
    return {
        "clock": window.clock,
        "reason": None if window.clock == DEVICE else step_timing(attempt).reason or None,
        "devices": devices,
        "idle_seconds": use.idle_seconds,
        "idle_ratio": use.idle_ratio,
        "late_host_ratio": use.late_host_ratio,
        "launch_bound": use.launch_bound,
        "host_lead_seconds": use.host_lead_seconds,
        "clock_error_seconds": use.clock_error_seconds,
    }


def _pipeline(attempt: Attempt, window: Window) -> schema.Pipeline | None:
    summary, schedule = pipeline(window), attempt.lifecycle.schedule
    if summary is None:
        return None
    return {
        "stages": [as_row(schema.PipelineStage, stage) for stage in summary.stages],
        "bubble_ratio": summary.bubble_ratio,
        "imbalance_ratio": summary.imbalance_ratio,
        "limiting_stage": summary.limiting_stage,
        "limiting_ratio": summary.limiting_ratio,
        "schedule": None if schedule is None else schedule.name,
        "ideal_bubble_ratio": None if schedule is None else schedule.ideal_bubble_ratio,
    }


def _microbatches(attempt: Attempt) -> schema.Microbatches | None:
    sample = attempt.tracker(Microbatches).sample()
    timeline = None if sample is None else sample.microbatch_timeline
    if timeline is None:
        return None
    return {
        "step": timeline.step,
        "ranks": timeline.ranks,
        "stages": [_stage_times(stage) for stage in timeline.stages],
        "left_out": timeline.left_out,
    }


def _stage_times(stage: StageTimes) -> schema.StageTimes:
    return {
        "stage": stage.stage,
        "ranks": stage.ranks,
        "busy_seconds": stage.busy_seconds,
        "blocked_seconds": stage.blocked_seconds,
        "idle_seconds": stage.idle_seconds,
        "bubble_ratio": stage.bubble_ratio,
        "microbatches": [as_row(schema.MicrobatchCell, cell) for cell in stage.microbatches],
        "rank": stage.rank,
        "chunks": [as_row(schema.Chunk, chunk) for chunk in stage.chunks],
    }


def collectives(attempt: Attempt) -> Collectives:
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


def _step_time(
    step_time: StepTimeBreakdown | None, window: Window
) -> schema.StepTimeBreakdown | None:
    if step_time is None:
        return None
    total = step_time.step_seconds
    shares = {name: step_time.seconds[name] / total if total > 0 else None for name in PARTS}
    return {
        "steps": span_of(window),
        "rank_steps": step_time.rank_steps,
        "step_seconds": total,
        "seconds": {**step_time.seconds},
        "ratio": shares,
    }


def _line(line: Collective) -> schema.Collective:
    return {**as_row(schema.Collective, line), "op": OP_NAMES[line.op]}
