"""Inputs for the straggler detector, and what its findings say of the node and of other ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from stepwatch.collector.analysis.newest_steps import newest_window, waits_of
from stepwatch.collector.analysis.stage_change import grown_stages
from stepwatch.collector.detect.clock import with_clock
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Evidence, Finding, text_evidence
from stepwatch.collector.detect.observed import compared_ranks, window_of
from stepwatch.collector.detect.rare_stages import rare_stages
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.collective_timing import Waits, caused
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.signals.arrays import Integers
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import OP_NAMES

from .costly import (
    NEARLY_ALL,
    CostlyRank,
    alone_and_slow,
    costly_ranks,
)
from .detector import detect, is_worth_it
from .partners import Partners, rarely_seen
from .report import RankFacts
from .thresholds import LIMITS


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks whose self time is longer than their peers' self time."""
    attempt, ranks, limits = context.attempt, compared_ranks(context), context.thresholds(LIMITS)
    if not context.compares_ranks or not len(ranks):
        return []
    costly = context.once(slow_by_evidence)
    if len(ranks) < len(context.window.stage):
        costly = [rank for rank in costly if rank.node < 0]  # the other nodes are not visible
    findings = _among(context, ranks, costly)
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


def slow_by_evidence(context: DetectionContext) -> list[CostlyRank]:
    """Return the ranks named by accumulated evidence."""
    stage, limits, course = context.window.stage, context.thresholds(LIMITS), context.course
    evidence = context.attempt.tracker(RankEvidence)
    costly: list[CostlyRank] = []
    if course is not None:
        costly = costly_ranks(evidence, stage, limits, course)
        costly += alone_and_slow(grown_stages(course, stage), stage, limits)
    return costly + alone_and_slow(context.once(rare_stages), stage, limits)


def _among(
    context: DetectionContext, ranks: Integers, costly: Sequence[CostlyRank]
) -> list[Finding]:
    """Return findings from a comparison of `ranks`; the others' steps are missing."""
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


def rank_facts(attempt: Attempt) -> RankFacts:
    """Return each rank's CPU and run-queue shares over the newest readings."""
    nanoseconds, cpu, queue = attempt.ranks.usage.growth()
    seconds = np.where(nanoseconds > 0, nanoseconds / NANOSECONDS, np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        return RankFacts(cpu / seconds, queue / seconds)


def with_node(
    findings: list[Finding], nodes: Mapping[int, str], slow_nodes: Collection[str] = ()
) -> list[Finding]:
    """Return the findings, with the node's name in each if their ranks share one node.

    `nodes` maps each rank to its node. At least two slow ranks and a second node are required.
    `slow_nodes` are already known to be slow as a whole.
    """
    if slow_nodes:
        return [
            _named(finding, nodes[finding.rank], "all its ranks together")
            if nodes.get(finding.rank) in slow_nodes
            else finding
            for finding in findings
        ]
    # A rank that was slow before another one is not slow together with it.
    ranks = sorted(finding.rank for finding in findings if finding.shows_now)
    slow = {nodes.get(rank, "") for rank in ranks}
    if len(ranks) < 2 or len(slow) != 1 or "" in slow or len(set(nodes.values())) < 2:
        return findings
    (node,) = slow
    rank_count = sum(name == node for name in nodes.values())
    if len(ranks) < NEARLY_ALL * rank_count:
        return findings
    many = f"all {rank_count}" if len(ranks) == rank_count else f"{len(ranks)} of {rank_count}"
    row = text_evidence("slow ranks", ", ".join(map(str, ranks)), f"{many} ranks of node {node}")
    return [
        _named(finding, node, f"{many} of its ranks")._replace(evidence=(*finding.evidence, row))
        if finding.rank in ranks
        else finding
        for finding in findings
    ]


def _named(finding: Finding, node: str, extent: str) -> Finding:
    return finding._replace(node=node, summary=f"node {node} is slow, {extent}; {finding.summary}")


def with_arrival_skew(finding: Finding, waits: Waits) -> Finding:
    """Add to `finding` how long its rank made another one wait in a collective since it began.

    It is the mean over the waiting ranks: for thousands of ranks the sum is hours within a step.
    The finding stays as it is if its rank caused no wait, or if this is unknown.
    """
    heads, (ranks, seconds) = waits.rows[waits.first], caused(waits)
    is_attributed = (ranks >= 0) & (heads["step"] >= finding.began_step)
    is_caused = is_attributed & (ranks == finding.rank) & (seconds > 0)
    if not is_caused.any():
        return finding
    by_op = np.bincount(heads["op"][is_caused], weights=seconds[is_caused])
    op = int(np.argmax(by_op))
    is_comparable = (
        is_attributed & (heads["op"] == op) & np.isin(heads["group"], heads["group"][is_caused])
    )
    steps = len(np.unique(heads["step"][is_comparable]))
    waiting = np.maximum(np.diff(np.append(waits.first, len(waits.rows))) - 1, 1)
    mean_waits = np.bincount(heads["op"][is_caused], weights=(seconds / waiting)[is_caused])
    ratio = by_op[op] / seconds[is_comparable].sum()
    row = Evidence(
        f"made others wait in {OP_NAMES[op]} per step",
        float(mean_waits[op]) / steps,
        "seconds",
        f"{ratio:.0%} of all arrival skew in its groups; mean of the ranks that waited",
    )
    return finding._replace(evidence=(*finding.evidence, row))
