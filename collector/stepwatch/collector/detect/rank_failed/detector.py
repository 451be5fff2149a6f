"""Rank failed: the first rank that died or raised in an attempt that did not finish.

A failure spreads: the other ranks lose their connections and raise, and torchrun ends the remaining
ranks with SIGTERM. Only the first end that is no such symptom is the cause. An attempt that was
asked to stop (a preemption, SIGTERM to all, Ctrl-C) has not failed.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepwatch.collector.detect.finding import (
    NO_RANK,
    Confidence,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.state.exit_codes import (
    ASKED_TO_STOP,
    INTERRUPTED,
    SIGNALLED,
    TERMINATED,
    UNKNOWN_EXIT,
)
from stepwatch.signals.exits import Explained, Weight
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import one_of_text, ranks_text

from . import words


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for the order between ends."""

    together_seconds: float = 0.05
    """Seconds: ends closer together have no order. A signal to all ranks ends them within a few
    milliseconds.
    """
    settle_seconds: float = 3.0
    """Seconds: the wait after an end before it counts as the first. Another node's agent may still
    be sending. A rank that left without an error is the lost peer if it ended at most this long
    after the others first reported the loss: they see its connections closed before its interpreter
    has ended.
    """
    preempted_seconds: float = 600.0
    """Seconds: steps that end this long after a preemption notice show that it was cancelled.
    Clouds and schedulers give seconds to a few minutes of notice.
    """
    lost_seconds: float = 5.0
    """Seconds: a node last seen at most this long before its peers lost connections to it is lost
    with its ranks; a node that was silent for longer had lost its agent before. Agents send every
    second: this is three flushes, plus two seconds for the kernel to see that a connection is gone.
    """
    way_seconds: float = 15.0
    """Seconds: how long a node's report may be in transit. Agents flush once a second, or every ten
    on request. The clock of a node whose reports seem to take longer, or to arrive before they were
    sent, is wrong.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""

_NODES_NAMED = 4
INTERRUPT = "KeyboardInterrupt"
"""The exception that a rank ended by Ctrl-C reports."""
_ORDERLY = (INTERRUPT, "SystemExit: 0", "SystemExit: 75")


class SilentNode(NamedTuple):
    """A node from which nothing was received since before the first rank failed.

    `ranks` are its ranks that did not end. `before_seconds` is the time between its last report and
    the moment at which the failed ranks stopped making progress. `node` is empty for ranks that
    never reported, on any node; their `before_seconds` is infinite.
    """

    node: str
    ranks: tuple[int, ...]
    before_seconds: float


class RankEnd(NamedTuple):
    """How one rank ended. Times are Unix seconds, NaN if an event did not happen or is unknown.

    `exit_code` is -1 if unknown. `failure` is the reported exception, empty if none. `lines` are
    its last stderr lines, and `no_lines` is the reason if they are unknown.
    """

    rank: int
    step: int
    phase: str
    gone_at: float
    exit_code: int
    failed_at: float
    failure: str
    finished: bool
    lines: tuple[str, ...] = ()
    no_lines: str = ""

    @property
    def ended_s(self) -> float:
        """Return when it was first seen to end; infinite if never."""
        moments = [moment for moment in (self.gone_at, self.failed_at) if not math.isnan(moment)]
        return min(moments, default=math.inf)


def detect(
    ends: list[RankEnd],
    world: int,
    preempted: bool,
    now: float,
    limits: Thresholds,
    silent: Sequence[SilentNode] = (),
) -> list[Finding]:
    """Return at most one finding: the first failure; `now` in Unix seconds dates it.

    If all failed ranks lost a peer, the cause is a rank that left cleanly before that, or else a
    node that fell `silent`.
    """
    if preempted:
        return []
    failed = [end for end in ends if _has_failed(end)]
    causes = [end for end in failed if not _is_symptom(end)]
    if failed and not causes and not _interrupted_before(failed, ends):
        causes = _left_first(ends, failed, limits)
        if silent and not causes and not _asked_alone(ends, failed, limits):
            return [finding_on_node(silent, failed, now, limits)]
        causes = causes or failed
    causes = _asked_alone(ends, failed, limits) or causes
    if not causes and not failed and _may_hide_a_failure(ends, world, silent, limits):
        return [finding_on_node(silent, ends, now, limits)]
    if not causes:
        return []
    first = min(causes, key=lambda end: end.ended_s)
    if first.exit_code == UNKNOWN_EXIT and not first.failure:
        other_ends = [end.ended_s for end in ends if end is not first]
        if len(other_ends) == world - 1 and max(other_ends, default=math.inf) - first.ended_s < (
            limits.together_seconds
        ):
            return []  # all at once without a reason: they were asked to stop
    return [_finding(first, ends, now)]


def only_symptoms(ends: list[RankEnd]) -> bool:
    """Return whether no end gives a reason: ranks lost a peer, or were asked to stop."""
    failed = [end for end in ends if _has_failed(end)]
    return bool(ends) and all(_is_symptom(end) for end in failed)


def _may_hide_a_failure(
    ends: list[RankEnd], world: int, silent: Sequence[SilentNode], limits: Thresholds
) -> bool:
    """Return whether all observed ranks got SIGTERM while others have long been unobserved.

    A launcher ends the remaining ranks this way when one has failed, and so does a person who stops
    the job. If all ranks are observed, the absence of a failure separates the two cases.
    """
    # A job may be stopped during start-up before its last ranks report: they hide no failure.
    silent = [node for node in silent if node.node]
    unseen = sum(len(node.ranks) for node in silent)
    terminated = all(end.exit_code == TERMINATED and not end.finished for end in ends)
    were_stale = all(node.before_seconds > limits.lost_seconds for node in silent)
    return bool(silent) and terminated and were_stale and len(ends) + unseen >= world


def _left_first(ends: list[RankEnd], failed: list[RankEnd], limits: Thresholds) -> list[RankEnd]:
    """Return the ranks that ended without an error around the first failure: the others lost them.

    If most ranks have ended this way, the job came to its end, and a failing rank fails by itself.
    """
    first = min(end.ended_s for end in failed)
    orderly = [
        end
        for end in ends
        if end not in failed
        and end.exit_code in (0, UNKNOWN_EXIT)
        and end.ended_s <= first + limits.settle_seconds
        and not any(word in end.failure for word in _ORDERLY)
    ]
    return orderly if len(orderly) <= len(failed) else []


def _asked_alone(ends: list[RankEnd], failed: list[RankEnd], limits: Thresholds) -> list[RankEnd]:
    """Return the one rank that SIGTERM ended while the others lived and failed later, if any.

    A rank that reports a lost peer ended because of that peer, whatever ended its process.
    """
    began = min((end.ended_s for end in failed), default=-math.inf)
    stopped = [
        end
        for end in ends
        if end.exit_code == TERMINATED and not end.finished and not _is_symptom(end)
    ]
    first = min((end.ended_s for end in stopped), default=math.inf)
    if first >= began:
        return []
    deadline = max(began, first + limits.together_seconds)
    candidates = [end for end in stopped if end.ended_s < deadline]
    return candidates if len(candidates) == 1 else []


def finding_on_node(
    silent: Sequence[SilentNode], failed: list[RankEnd], now: float, limits: Thresholds
) -> Finding:
    """Return the finding on ranks that lost peers on nodes that send nothing.

    A node that fell silent at the same time is lost itself. A node that was silent before lacks its
    agent, and its ranks' state is unknown.
    """
    first = min(failed, key=lambda end: end.ended_s)
    lost = [
        silent_node for silent_node in silent if silent_node.before_seconds <= limits.lost_seconds
    ]
    named = lost or list(silent)
    nodes = ", ".join(silent_node.node or "unknown" for silent_node in named[:_NODES_NAMED])
    numbers = [rank for silent_node in named for rank in silent_node.ranks]
    ranks, candidates_text = ranks_text(numbers), one_of_text(numbers)
    peers = ranks_text([end.rank for end in failed])
    happened = "lost the connection"
    if lost:
        failure = f"node {nodes} ({ranks}) is lost: nothing was received from it since"
    elif not any(silent_node.node for silent_node in named):
        failure = f"{candidates_text}, which never sent a record, ended first"
    else:
        failure = f"{candidates_text} on node {nodes}, which is not observed, ended first"
    if first.exit_code == TERMINATED:
        failure, happened = f"{failure}, or the job was stopped by hand", "were ended by SIGTERM"
    summary = f"{failure}; {peers} {happened} in step {first.step} ({first.phase}), a symptom"
    rows = [_last_seen(silent_node, peers) for silent_node in named[:_NODES_NAMED]]
    only = named[0] if len(named) == 1 else None
    return build_finding(
        kind=FindingKind.RANK_FAILED,
        cause=Cause.NODE_LOST if lost else Cause.PROCESS_GONE,
        summary=summary,
        rank=only.ranks[0] if only is not None and len(only.ranks) == 1 else NO_RANK,
        phase=first.phase,
        began_step=first.step,
        began_ago_seconds=max(0.0, now - first.ended_s),
        lost_ratio=1.0,
        evidence=rows,
        node=only.node if only is not None else "",
        confidence=Confidence.LIKELY if lost else Confidence.ONE_OF,
    )


def _last_seen(silent: SilentNode, peers: str) -> Evidence:
    if not silent.node:
        return text_evidence(ranks_text(list(silent.ranks)), "never seen", "nor their node")
    return Evidence(
        f"node {silent.node} was last seen",
        silent.before_seconds,
        "seconds",
        f"before {peers} made no progress any more",
    )


def _has_failed(end: RankEnd) -> bool:
    if any(word in end.failure for word in _ORDERLY) or end.exit_code in ASKED_TO_STOP:
        return False
    if end.failure:
        return True
    if math.isnan(end.gone_at):
        return False
    if end.finished:
        return end.exit_code > 0
    return end.exit_code != 0


def _interrupted_before(failed: list[RankEnd], ends: list[RankEnd]) -> bool:
    """Return whether a Ctrl-C had ended a rank before the first of `failed` lost connections.

    SIGTERM does not count here, since one rank alone may get it.
    """
    first = min((end.ended_s for end in failed), default=math.inf)
    return any(end.ended_s < first for end in ends if _is_interrupted(end))


def _is_interrupted(end: RankEnd) -> bool:
    return INTERRUPT in end.failure or end.exit_code == INTERRUPTED


def _is_symptom(end: RankEnd) -> bool:
    return words.is_symptom(end.failure, end.lines)


def _finding(first: RankEnd, ends: list[RankEnd], now: float) -> Finding:
    failed = _has_failed(first)
    explanation = words.explained(first.failure, first.lines) if failed else None
    description = words.named_end(
        explanation, f"raised {first.failure}" if first.failure else _how(first)
    )
    later = [end.ended_s - first.ended_s for end in ends if first.ended_s < end.ended_s < math.inf]
    other_ranks = "another rank" if len(later) == 1 else f"{len(later)} other ranks"
    aftermath = f"; {other_ranks} ended after it" if later else ""
    evidence = [text_evidence(f"rank {first.rank}", description, "the first of the attempt to end")]
    if failed:
        evidence.extend(words.evidence(explanation, first.lines, first.no_lines))
    if later:
        evidence.append(
            Evidence("the next rank ended", min(later), "seconds", "after the first: a symptom")
        )
    if first.exit_code != UNKNOWN_EXIT:
        evidence.append(Evidence("its exit code", first.exit_code, "", "128 + n: by signal n"))
    where = f"in step {first.step} ({first.phase})"
    did = "failed" if failed else "left"
    summary = f"rank {first.rank} {did} first, {where}: it {description}{aftermath}"
    return build_finding(
        kind=FindingKind.RANK_FAILED,
        rank=first.rank,
        phase=first.phase,
        cause=_cause(first, explanation),
        summary=summary,
        began_step=first.step,
        began_ago_seconds=max(0.0, now - first.ended_s),
        lost_ratio=1.0,
        evidence=evidence,
        confidence=Confidence.LIKELY if _is_symptom(first) else Confidence.CERTAIN,
    )


def _cause(first: RankEnd, explanation: Explained | None) -> Cause:
    """Return the cause that the rank's last words name.

    Words that only report a lost rank name none: it is EXCEPTION, or PROCESS_GONE without one.
    """
    if explanation is not None and explanation.pattern.weight is not Weight.SYMPTOM:
        return explanation.pattern.cause
    return Cause.EXCEPTION if first.failure else Cause.PROCESS_GONE


def _how(end: RankEnd) -> str:
    exit_code = end.exit_code
    if exit_code == 0 or (end.finished and exit_code == UNKNOWN_EXIT):
        return "ended without an error while others continued"
    if exit_code == UNKNOWN_EXIT:
        return "disappeared; its exit code is unknown"
    number = exit_code - SIGNALLED
    if number not in signal.valid_signals():
        return f"ended with exit code {exit_code}"
    if number == signal.SIGALRM:  # the reference trainer sets it for the end of its grace period
        return "was ended by a timer (SIGALRM), as one for the end of a grace period"
    names = {known_signal.value: known_signal.name for known_signal in signal.Signals}
    return f"was killed by {names.get(number, f'signal {number}')}"
