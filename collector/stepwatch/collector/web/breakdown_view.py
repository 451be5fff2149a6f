"""Breakdown of an attempt's newest steps as JSON: step time, stages, what-if, collectives.

Microbatches are those of the newest sampled step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.collector.analysis.collective_timing import (
    Collective,
    Waits,
    caused,
    summaries,
    waits,
)
from stepwatch.collector.analysis.pipeline_stages import complete_steps, pipeline
from stepwatch.collector.analysis.step_time_breakdown import (
    PARTS,
    StepTimeBreakdown,
    exposed,
    step_time_breakdown,
)
from stepwatch.collector.analysis.what_if import what_if
from stepwatch.collector.detect.finding import Evidence, Finding
from stepwatch.collector.state.job import Attempt
from stepwatch.collector.state.step_window import Window
from stepwatch.signals.records import OP_NAMES

WINDOW_STEPS = 64
"""Steps looked at: enough to even out noise, few enough to show the run as it is now."""
MAX_CELLS, LEAST_STEPS = 1 << 16, 8
"""(step, rank) cells looked at in a large job, and the fewest steps: every reader waits for it."""
MAX_COLLECTIVES = 128
"""Lines in one answer, those that blocked longest; the rest is counted."""


def breakdown(attempt: Attempt) -> dict[str, Any]:
    """Parts, pipeline, microbatches and what-if of the newest steps; null or empty if unknown."""
    window = _window(attempt)
    found = _waits(attempt, window)
    complete = complete_steps(window)
    return {
        "step_time_breakdown": _step_time(
            step_time_breakdown(window, exposed(window, found)), window
        ),
        "pipeline": _pipeline(attempt, window),
        "microbatches": _microbatches(attempt),
        "what_if": [item._asdict() for item in what_if(complete, exposed(complete, found))],
    }


def _pipeline(attempt: Attempt, window: Window) -> dict[str, Any] | None:
    found, schedule = pipeline(window), attempt.schedule
    if found is None:
        return None
    return {
        **found._asdict(),
        "stages": [stage._asdict() for stage in found.stages],
        "schedule": None if schedule is None else schedule.name,
        "ideal_bubble_ratio": None if schedule is None else schedule.ideal_bubble_ratio,
    }


def _microbatches(attempt: Attempt) -> dict[str, Any] | None:
    sample = attempt.microbatches.sample()
    found = None if sample is None else sample.microbatch_timeline
    if found is None:
        return None
    stages = [
        {
            **stage._asdict(),
            "microbatches": [cell._asdict() for cell in stage.microbatches],
            "chunks": [chunk._asdict() for chunk in stage.chunks],
        }
        for stage in found.stages
    ]
    return {**found._asdict(), "stages": stages}


def collectives(attempt: Attempt) -> dict[str, Any]:
    """Collectives of the newest steps by operation and group."""
    window = _window(attempt)
    groups = attempt.collective_records.groups
    lines, left_out = summaries(_waits(attempt, window), groups, MAX_COLLECTIVES)
    return {
        "attempt": attempt.number,
        "steps": _span(window),
        "collectives": [_line(line) for line in lines],
        "left_out": left_out,
    }


def waited_for(attempt: Attempt, findings: list[Finding]) -> list[Finding]:
    """Add to each finding how long its rank made others wait in a collective since it began.

    A finding stays as it is where its rank did not, or where that cannot be told.
    """
    if not findings:
        return findings
    found = _waits(attempt, _window(attempt))
    return [_with_wait(finding, found) for finding in findings]


def _with_wait(finding: Finding, found: Waits) -> Finding:
    heads, (ranks, seconds) = found.rows[found.first], caused(found)
    judged = (ranks >= 0) & (heads["step"] >= finding.began_step)
    mine = judged & (ranks == finding.rank) & (seconds > 0)
    if not mine.any():
        return finding
    by_op = np.bincount(heads["op"][mine], weights=seconds[mine])
    op = int(np.argmax(by_op))
    same = judged & (heads["op"] == op) & np.isin(heads["group"], heads["group"][mine])
    steps = len(np.unique(heads["step"][same]))
    ratio = by_op[op] / seconds[same].sum()
    row = Evidence(
        f"made others wait in {OP_NAMES[op]} per step",
        float(by_op[op]) / steps,
        "seconds",
        f"{ratio:.0%} of all wait for others in its groups; summed over the ranks that waited",
    )
    return finding._replace(evidence=(*finding.evidence, row))


def _window(attempt: Attempt) -> Window:
    """As many of the newest steps as can be judged at once."""
    affordable = MAX_CELLS // max(1, attempt.world)
    return attempt.window(min(WINDOW_STEPS, max(LEAST_STEPS, affordable)))


def _waits(attempt: Attempt, window: Window) -> Waits:
    first, last = _span(window) or (1, 0)
    return waits(
        attempt.collective_records.of_steps(first, last), attempt.collective_records.groups
    )


def _span(window: Window) -> tuple[int, int] | None:
    """First and last step of the window; None where it is empty."""
    return (int(window.steps[0]), int(window.steps[-1])) if len(window.steps) else None


def _step_time(found: StepTimeBreakdown | None, window: Window) -> dict[str, Any] | None:
    if found is None:
        return None
    total = found.step_seconds
    shares = {name: found.seconds[name] / total if total > 0 else None for name in PARTS}
    return {**found._asdict(), "steps": _span(window), "ratio": shares}


def _line(line: Collective) -> dict[str, Any]:
    return {**line._asdict(), "op": OP_NAMES[line.op]}
