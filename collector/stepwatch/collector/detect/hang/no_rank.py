"""The finding for a stall that no single rank explains: the ranks' common facts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stepwatch.collector.detect.finding import (
    Confidence,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import one_of_text, ranks_text
from stepwatch.signals.records import ProcessState

from .awaited import waiter_for
from .report import op_name, shared_cause, standing
from .situation import RankSituation, Unseen
from .stall import Stall
from .thresholds import Thresholds
from .together import are_all_frozen, node_of, who_words

_STATES = {
    ProcessState.STOPPED: (Cause.PROCESS_STOPPED, "are stopped (SIGSTOP)"),
    ProcessState.UNINTERRUPTIBLE: (Cause.UNINTERRUPTIBLE_IO, "are blocked in the kernel"),
}
NODES_NAMED = 4


def finding_on_several(stall: Stall, few: list[RankSituation]) -> Finding:
    """Return the finding on a stall that several ranks share for one reason; it names no rank."""
    cause, state = _STATES[few[0].process]
    ranks_label = who_words(few, stall.ranks)
    words = f"{ranks_label} {state}"
    rows = [
        text_evidence(ranks_label, state, "one reason that they share, and no rank's own fault")
    ]
    return _finding(stall, cause, words, rows, Confidence.CERTAIN, node_of(few))


def finding_without_rank(stall: Stall, limits: Thresholds) -> Finding:
    """Return the finding on a stall in which no observed rank is an outlier."""
    if are_all_frozen(stall.ranks, limits):
        ranks_label = who_words(stall.ranks, stall.ranks)
        words = f"{ranks_label} do not move: no thread of theirs runs, and none uses a CPU"
        return _finding(
            stall, Cause.PROCESS_STOPPED, words, (), Confidence.LIKELY, node_of(stall.ranks)
        )
    if stall.answer.holding:
        return _finding_on_ended(stall, stall.answer.holding)
    if stall.answer.unobserved:
        return _finding_on_unseen(stall)
    cause, words = shared_cause(stall.ranks)
    if stall.answer.complete and cause is Cause.UNKNOWN:
        place = stall.answer.complete[0].words
        words = f"all members are inside {place}, and it does not end; no rank stands out"
    return _finding(stall, cause, words, ())


def _finding_on_ended(stall: Stall, ended: Iterable[int]) -> Finding:
    """Return the finding that other ranks wait for finished ranks, which never arrive."""
    finished = sorted(ended)
    words = (
        f"{ranks_text(finished)} finished while {_waiters(stall)} wait in {_where(stall, finished)}"
    )
    rows = [
        text_evidence(ranks_text(finished), "finished", "the others wait for it in a collective")
    ]
    finding = _finding(stall, Cause.PROCESS_GONE, words, rows, Confidence.CERTAIN)
    return finding._replace(rank=finished[0]) if len(finished) == 1 else finding


def _finding_on_unseen(stall: Stall) -> Finding:
    """Return the finding that other ranks wait for unobserved ranks."""
    unseen = [rank for rank in stall.other_ranks.unseen if rank.rank in stall.answer.unobserved]
    nodes = sorted({rank.node for rank in unseen})
    place = _place_words(unseen, nodes)
    where = _where(stall, stall.answer.unobserved)
    subject = "those do" if len(unseen) > 1 else "it does"
    words = f"{_waiters(stall)} wait in {where} for {place}; what {subject} is unknown"
    rows = [
        Evidence(
            f"time since {ranks_text(_ranks(unseen, node))} of node {node} were last seen",
            max(rank.silent_seconds for rank in unseen if rank.node == node),
            "seconds",
            "nothing is known of them since",
        )
        for node in nodes[:NODES_NAMED]
    ]
    node = nodes[0] if len(nodes) == 1 else ""
    cause = Cause.NODE_LOST if stall.lost else Cause.UNKNOWN
    return _finding(stall, cause, words, rows, Confidence.ONE_OF, node)


def _place_words(unseen: list[Unseen], nodes: list[str]) -> str:
    """Return for example `one of ranks 4-7 on node b, which is not observed`."""
    ranks = one_of_text(rank.rank for rank in unseen)
    named = ", ".join(nodes[:NODES_NAMED])
    if len(nodes) == 1:
        return f"{ranks} on node {named}, which is not observed"
    return f"{ranks} on nodes {named}, which are not observed"


def _ranks(unseen: list[Unseen], node: str) -> list[int]:
    return [rank.rank for rank in unseen if rank.node == node]


def _waiters(stall: Stall) -> str:
    return ranks_text([item.rank for item in stall.ranks if item.in_collective or item.waiting])


def _where(stall: Stall, missing: Collection[int]) -> str:
    inside = waiter_for(missing, stall.ranks, stall.diagnostics.groups)
    if inside is None:
        return "a pipeline exchange"
    group = stall.diagnostics.groups.get(inside.group, "")
    return f"{op_name(inside.op)} of group {group}" if group else op_name(inside.op)


def _finding(
    stall: Stall,
    cause: Cause,
    words: str,
    rows: Iterable[Evidence],
    confidence: Confidence = Confidence.LIKELY,
    node: str = "",
) -> Finding:
    step = min(item.step for item in stall.ranks)
    return build_finding(
        kind=FindingKind.HANG,
        cause=cause,
        summary=f"the job has made no progress in step {step} for {stall.seconds:.0f} s; {words}",
        began_step=step,
        began_ago_seconds=stall.seconds,
        severity=stall.seconds,
        lost_ratio=1.0,
        evidence=(*standing(stall.ranks, stall.seconds), *rows),
        node=node,
        confidence=confidence,
    )
