"""Inputs for the rank-failed detector."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.last_lines import LastLines, LastWords
from stepwatch.collector.state.trackers.lifecycle import Lifecycle
from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE, Agents
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import LifecycleEvent, phase_name

from . import detector
from .resumes import with_resume

_NOT_FINISHED = (LifecycleEvent.FAILURE, LifecycleEvent.INTERRUPT)


def find(context: DetectionContext) -> list[Finding]:
    """Return the first rank that failed, once no earlier end can arrive."""
    attempt, limits = context.attempt, context.thresholds(detector.LIMITS)
    on_theirs = rank_ends(attempt)
    ends = [_on_our_clock(context, end) for end in on_theirs]
    waited = max((_age(context, end) for end in ends), default=0.0)
    if len(ends) < attempt.world and waited < limits.settle_seconds:
        return []
    silent: tuple[detector.SilentNode, ...] = ()
    if detector.only_symptoms(ends):
        began = context.now_s - waited
        if _may_be_silent(context, began):
            return []
        silent = _silent_nodes(context, began, _stood_seconds(attempt, on_theirs))
    preempted = _is_preempted(attempt, limits.preempted_seconds)
    findings = detector.detect(ends, attempt.world, preempted, context.wall_s, limits, silent)
    return [with_resume(context, finding) for finding in findings]


def _age(context: DetectionContext, end: detector.RankEnd) -> float:
    """Return the seconds since a rank ended.

    They count by its node's clock until its agent's last poll, then by the collector's clock. No
    two clocks are compared, and an agent's report frequency does not matter.
    """
    moment_s = end.ended_s - _clock_error(context, end.rank)
    seen_age = (
        max(0.0, _looked_at(context, end.rank) - moment_s) if math.isfinite(end.ended_s) else 0.0
    )
    received = context.attempt.ranks.views[end.rank].received_monotonic_s
    return seen_age + max(0.0, context.now_s - received)


def _looked_at(context: DetectionContext, rank: int) -> float:
    """Return when a rank's agent last polled, in Unix seconds by its node's clock."""
    view = context.attempt.ranks.views[rank]
    offset = context.attempt.offsets.get(view.node, 0)
    return (int(view.row["time_ns"]) + offset) / NANOSECONDS


def _clock_error(context: DetectionContext, rank: int) -> float:
    """Return the error of a node clock relative to the collector's clock, in seconds.

    It is 0 if the network delay explains it: reports arrive late by that delay, and never early.
    """
    delay_s = _delivery_delay(context, rank)
    return 0.0 if 0.0 <= delay_s <= context.thresholds(detector.LIMITS).way_seconds else delay_s


def _delivery_delay(context: DetectionContext, rank: int) -> float:
    """Return how long after its agent's poll a rank's row was received, if the clocks agree."""
    received = context.attempt.ranks.views[rank].received_monotonic_s
    return context.wall_s - (context.now_s - received) - _looked_at(context, rank)


def _on_our_clock(context: DetectionContext, end: detector.RankEnd) -> detector.RankEnd:
    """Return `end` with its times on the collector's clock, since two nodes' ends are compared."""
    error = _clock_error(context, end.rank)
    return end._replace(gone_at=end.gone_at + error, failed_at=end.failed_at + error)


def _stood_seconds(attempt: Attempt, ends: list[detector.RankEnd]) -> float:
    """Return for how long the ended ranks had made no progress when they ended, at least 0."""
    rows = attempt.ranks.rows[[end.rank for end in ends]]
    moved = np.maximum(rows["since_ns"], rows["collective_since_ns"]).astype(np.int64)
    offsets = [attempt.offsets.get(attempt.ranks.views[end.rank].node, 0) for end in ends]
    ended = np.array([end.ended_s for end in ends]) * NANOSECONDS - offsets
    return max(0.0, float(np.min((ended - moved) / NANOSECONDS)))


def _may_be_silent(context: DetectionContext, began: float) -> bool:
    """Return whether a node that is not stale has sent nothing newer than the first end.

    A node that sends is seen again within a flush or two; then none of its ranks are lost. An
    agent's late report shows its ranks' earlier state.
    """
    delays_s = dict.fromkeys(context.staleness, 0.0)
    for rank, view in context.attempt.ranks.views.items():
        if view.node in delays_s and _clock_error(context, rank) == 0.0:
            delays_s[view.node] = max(delays_s[view.node], _delivery_delay(context, rank))
    return any(
        node not in context.stale_nodes and _last_seen(context, node) - delays_s[node] <= began
        for node in context.staleness
    )


def _silent_nodes(
    context: DetectionContext, began: float, stood: float
) -> tuple[detector.SilentNode, ...]:
    """Return the nodes that sent nothing since the first rank ended at `began`, with their ranks.

    The ended ranks had waited for them for `stood` seconds: a connection reports late that its peer
    is lost. A node that is lost before the first step may never have reported: then its ranks are
    among the ranks that never reported.
    """
    ranks: dict[str, list[int]] = {}
    node_of = context.attempt.ranks.node_of
    for rank in sorted(context.unobserved):
        ranks.setdefault(node_of.get(rank, UNKNOWN_NODE), []).append(rank)
    silent = [
        detector.SilentNode(
            node, tuple(members), max(0.0, began - stood - _last_seen(context, node))
        )
        for node, members in sorted(ranks.items())
        if _last_seen(context, node) <= began + context.attempt.tracker(Agents).flush_seconds(node)
    ]
    if UNKNOWN_NODE not in context.staleness:
        never = tuple(np.flatnonzero(~context.attempt.ranks.reported).tolist())
        silent += [detector.SilentNode("", never, math.inf)] if never else []
    return tuple(silent)


def _last_seen(context: DetectionContext, node: str) -> float:
    """Return when a node was last received from, in the collector's monotonic seconds."""
    return context.now_s - context.staleness[node]


def _is_preempted(attempt: Attempt, valid_seconds: float) -> bool:
    """Return whether a preemption notice was still valid when the newest step ended."""
    oldest = attempt.steps.newest_s - valid_seconds
    stops = (fact for fact in attempt.lifecycle.events if fact.event is LifecycleEvent.PREEMPTION)
    return any(fact.time_s >= oldest for fact in stops)


def rank_ends(attempt: Attempt) -> list[detector.RankEnd]:
    """Return the ranks of `attempt` that ended in any way."""
    failures = {fact.rank: fact for fact in attempt.lifecycle.events if fact.event in _NOT_FINISHED}
    gone_ranks = np.flatnonzero(attempt.ranks.rows["gone_ns"]).tolist()
    written = attempt.tracker(LastLines).by_rank
    ends = []
    for rank in sorted({*failures, *gone_ranks} & attempt.ranks.views.keys()):
        failure, view = failures.get(rank), attempt.ranks.views[rank]
        gone_at = attempt.outcome.gone_at(rank)
        if failure is None and math.isnan(gone_at):
            continue
        ends.append(
            detector.RankEnd(
                rank=rank,
                step=int(view.row["step"]),
                phase=phase_name(int(view.row["phase"])),
                gone_at=gone_at,
                exit_code=int(view.row["exit_code"]),
                failed_at=failure.time_s if failure is not None else math.nan,
                failure=_words(failure) if failure is not None else "",
                finished=attempt.lifecycle.ended.get(rank) is LifecycleEvent.FINISH,
                lines=written.get(rank, LastWords()).lines,
                no_lines=written.get(rank, LastWords()).reason,
            )
        )
    return ends


def _words(end: Lifecycle) -> str:
    """Return the exception that a rank reported, also for an interruption."""
    interrupted = end.event is LifecycleEvent.INTERRUPT
    return detector.INTERRUPT if interrupted else end.text or "an exception"
