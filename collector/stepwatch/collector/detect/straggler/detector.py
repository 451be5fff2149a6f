"""Straggler: a rank whose self time is longer than that of ranks with the same work.

Self time excludes every wait, so the slow rank is the one with more of it, while the ranks it
delays show wait. Peers are the other ranks of its pipeline stage; a rank without peers is compared
with its own baseline. A rank is slow persistently, in one phase and nearly every step, or
intermittently: in some steps only, but repeatedly and far more often than by chance, given how
often the other ranks have such steps.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.peers import peers_of
from stepwatch.collector.detect.steps import usable_steps
from stepwatch.collector.detect.straggler.cause import RankFacts
from stepwatch.collector.detect.straggler.intermittent import intermittent
from stepwatch.collector.detect.straggler.persistent import persistent
from stepwatch.collector.detect.straggler.report import finding_of
from stepwatch.collector.detect.straggler.steps import evaluated_steps
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.trackers.step_window import WORK, Window
from stepwatch.signals.arrays import Vector


def detect(
    window: Window,
    facts: RankFacts,
    limits: Thresholds,
    baseline: Mapping[str, Vector] | None = None,
) -> list[Finding]:
    """Findings on the newest steps of `window`, the worst first.

    `window` may hold more steps than are evaluated: they show since when. `baseline` maps a phase
    to the seconds per step (ranks,) in the run's first steps, NaN where unknown; then the older
    half of the window is the baseline. There are no findings with more stages than a pipeline has.
    """
    usable = usable_steps(window)
    stages = peers_of(window.stage)
    if usable.sum() < limits.certain_steps or stages is None:
        return []
    steps = evaluated_steps(window, usable, stages, baseline or {})
    # A single process that waits for data is a job that does: there is no rank to compare it with.
    phases = WORK if len(window.stage) > 1 else tuple(name for name in WORK if name != "data")
    slow = [each for phase in phases for each in persistent(steps, phase, limits)]
    findings = _worst_phase([finding_of(each, steps, facts, limits) for each in slow])
    named = {finding.rank for finding in findings}
    findings += [
        finding_of(each, steps, facts, limits) for each in intermittent(steps, named, limits)
    ]
    return sorted(findings, key=lambda finding: -finding.severity)


def _worst_phase(findings: list[Finding]) -> list[Finding]:
    """One finding per rank: the phase with the largest excess; the others follow from it."""
    worst: dict[int, Finding] = {}
    for finding in findings:
        known = worst.get(finding.rank)
        if known is None or finding.severity > known.severity:
            worst[finding.rank] = finding
    return list(worst.values())
