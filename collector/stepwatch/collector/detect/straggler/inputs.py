"""Inputs for the straggler detector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepwatch.collector.analysis.newest_steps import newest_window, waits_of
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding, text_evidence
from stepwatch.collector.detect.observed import compared_ranks, window_of
from stepwatch.collector.detect.rare_stages import rare_stages
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.phrases import ranks_text

from .arrival_skew import with_arrival_skew
from .cause import RankFacts
from .detector import detect, is_worth_it
from .evidence.alone import alone_and_rarely_slow, alone_and_slower
from .evidence.costly import CostlyRank, costly_ranks
from .evidence.partners import Partners, rarely_seen
from .places import with_node
from .thresholds import LIMITS


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks whose self time is longer than their peers' self time."""
    attempt = context.attempt
    if not context.compares_ranks:
        return []
    ranks, limits = compared_ranks(context), context.thresholds(LIMITS)
    costly = _costly(context)
    if len(ranks) == len(context.window.stage):
        baseline = context.baseline.work_of(attempt.steps.ring.world)
        partners = context.once(partners_in)
        findings = detect(
            context.window, rank_facts(attempt), limits, baseline, costly, partners=partners
        )
    elif len(ranks):
        costly = [rank for rank in costly if rank.node < 0]  # the other nodes are not visible
        findings = _among(context, ranks, costly)
    else:
        return []
    sure = {rank.rank for rank in costly}
    findings = [
        finding for finding in findings if finding.rank in sure or is_worth_it(finding, limits)
    ]
    if not findings:
        return []
    nodes = attempt.ranks.node_of
    slow_nodes = {nodes[rank.rank] for rank in costly if rank.node >= 0}
    findings = with_node(findings, nodes, slow_nodes)
    collectives = waits_of(attempt, newest_window(attempt))
    return [
        with_clock(context, with_arrival_skew(context.dated(finding), collectives))
        for finding in findings
    ]


def _costly(context: DetectionContext) -> list[CostlyRank]:
    """Return the ranks named by accumulated evidence."""
    stage, limits = context.window.stage, context.thresholds(LIMITS)
    rarely = alone_and_rarely_slow(context.once(rare_stages), stage, limits)
    evidence, course = evidence_of(context), context.course
    if evidence is None or course is None:
        return rarely
    costly = costly_ranks(evidence, stage, limits, course)
    return costly + alone_and_slower(course, stage, limits) + rarely


def _among(
    context: DetectionContext, ranks: Integers, costly: Sequence[CostlyRank]
) -> list[Finding]:
    """Return findings from a comparison of `ranks` alone, as the others' steps are missing."""
    place = {rank: column for column, rank in enumerate(ranks.tolist())}
    columns = [rank._replace(rank=place[rank.rank]) for rank in costly if rank.rank in place]
    attempt = context.attempt
    baseline = context.baseline.work_of(attempt.steps.ring.world)
    findings = detect(
        window_of(context.window, ranks),
        rank_facts(attempt).for_ranks(ranks),
        context.thresholds(LIMITS),
        {name: seconds[ranks] for name, seconds in baseline.items()},
        columns,
        ranks,
        context.once(partners_in),
    )
    rows = [
        text_evidence(name, ranks_text(sorted(absent)), "")
        for name, absent in (
            ("ranks not observed", context.unobserved),
            ("ranks that are done", context.left_out - context.unobserved),
        )
        if absent
    ]
    return [finding._replace(evidence=(*finding.evidence, *rows)) for finding in findings]


def partners_in(context: DetectionContext) -> Partners:
    """Return which ranks meet most often, and which ranks have too little evidence to compare."""
    groups = context.attempt.collective_records.groups
    left_out = context.left_out
    if context.course is not None:
        left_out |= rarely_seen(context.course, len(context.window.stage))
    return Partners(context.window, context.baseline.calls, groups, left_out)


def evidence_of(context: DetectionContext) -> RankEvidence | None:
    """Return the evidence on each rank; None if its clock differs from the window's."""
    evidence = context.attempt.tracker(RankEvidence)
    return evidence if evidence.clock == context.window.clock else None


def rank_facts(attempt: Attempt) -> RankFacts:
    """Return each rank's CPU and run-queue shares over the newest readings."""
    nanoseconds, cpu, queue = attempt.ranks.usage.growth()
    seconds = np.where(nanoseconds > 0, nanoseconds / NANOSECONDS, np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        return RankFacts(cpu / seconds, queue / seconds)
