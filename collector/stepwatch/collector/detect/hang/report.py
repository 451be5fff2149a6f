"""Hang: no rank makes progress, and no pause explains it; names the missing rank and the cause.

Ages come from each node's own monotonic clock, so no two clocks are compared. The rank that did not
arrive is neither inside a collective nor waiting for a pipeline neighbour. If no single rank
explains the stall, the finding holds the ranks' common facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stepwatch.collector.detect.context import STALE_AFTER_SECONDS
from stepwatch.collector.detect.finding import (
    Confidence,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.trackers.diagnoses import Diagnosis, FlightEntry
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import do_text, one_of_text, ranks_text
from stepwatch.signals.records import OP_NAMES, GilState, Phase, ProcessState, phase_name

from .holding import node_of, sharing_state, waiter_for, who_words
from .situation import (
    DEAD,
    RankSituation,
    Unseen,
    are_all_frozen,
    is_interpreter_held,
    place_words,
)
from .stall import Stall, culprit_of

_COMPLETED = "completed"
"""State of a flight-recorder entry whose collective the device has passed."""
FRAMES = " < "
"""Separator between two stack frames, the innermost first."""
_MOST_PENDING = 4
"""Groups whose pending collective appears in the evidence: a rank may be in a hundred groups."""
_OF_MICROBATCHES = (Phase.FORWARD, Phase.BACKWARD)
_STATES = {
    ProcessState.STOPPED: (Cause.PROCESS_STOPPED, "are stopped (SIGSTOP)"),
    ProcessState.UNINTERRUPTIBLE: (Cause.UNINTERRUPTIBLE_IO, "are blocked in the kernel"),
}
NODES_NAMED = 4


def detect(stall: Stall | None) -> list[Finding]:
    """Return one finding if nothing moves for longer than a pause explains."""
    if stall is None or not stall.is_hang:
        return []
    culprit = None if are_all_frozen(stall.ranks) else culprit_of(stall)
    if culprit is None:
        return [finding_without_rank(stall)]
    few = sharing_state(culprit, stall.ranks)
    return [finding_on_several(stall, few) if len(few) > 1 else finding_of(stall, culprit)]


def finding_of(stall: Stall, culprit: RankSituation) -> Finding:
    """Return the finding on a stalled job that waits for `culprit`."""
    phase, diagnosis = phase_name(culprit.phase), stall.diagnostics.diagnoses.get(culprit.rank)
    cause, words = cause_of(culprit, diagnosis)
    absent = _absence(culprit, stall)
    where = f"it is in {phase}"
    if culprit.phase in _OF_MICROBATCHES:
        where += f", microbatch {culprit.microbatch}"
    if culprit.host is not None:
        where = f"its device is {place_words(culprit)}, its host {place_words(culprit.host)}"
    elif diagnosis is not None and diagnosis.line:
        where = f"it is at {diagnosis.line} in {diagnosis.function} ({phase})"
    waiters = "the others wait for it" if len(stall.ranks) > 1 else "the only rank"
    rows = _about(culprit, absent, diagnosis, waiters) + _device_rows(culprit, diagnosis)
    words = f"rank {culprit.rank} {absent}; {where}, and {words}{_not_known(stall, culprit)}"
    finding = _finding(stall, cause, words, rows, _confidence(stall, culprit))
    return finding._replace(
        rank=culprit.rank,
        phase=phase,
        began_ago_seconds=culprit.moved_age,
        severity=culprit.moved_age,
    )


def _not_known(stall: Stall, culprit: RankSituation) -> str:
    """Return words on missing observations: the rank itself meanwhile, or other ranks."""
    ago = in_words(culprit.silent_seconds)
    itself = f"; it was last seen {ago} ago" if culprit.silent_seconds else ""
    unseen = [rank.rank for rank in stall.other_ranks.unseen]
    return itself + (f"; what {do_text(unseen)} is unknown" if unseen else "")


def _confidence(stall: Stall, culprit: RankSituation) -> Confidence:
    """Return certain if a process fact, or absence alone, proves which rank blocks the others."""
    if culprit.silent_seconds:
        return Confidence.LIKELY
    is_sole_absentee = (
        len(stall.outside) == 1 and bool(stall.waiting) and not stall.other_ranks.unseen
    )
    proven = culprit.process in DEAD or is_sole_absentee
    return Confidence.CERTAIN if proven else Confidence.LIKELY


def standing(ranks: list[RankSituation], stalled_for: float) -> list[Evidence]:
    """Return evidence rows on the stall's duration and the number of waiting ranks."""
    waiting = [item for item in ranks if item.is_held]
    evidence = [
        Evidence("time without progress of any rank", stalled_for, "seconds", "0 while training"),
        Evidence("ranks waiting for others", len(waiting), "ranks", f"of {len(ranks)}"),
    ]
    inside = next((item for item in ranks if item.in_collective), None)
    if inside is not None:
        evidence.append(
            Evidence(
                f"{_waiter_words(inside)} waits in {op_name(inside.op)} for",
                inside.moved_age,
                "seconds",
                "an arrival that does not come",
            )
        )
    return evidence


def _waiter_words(item: RankSituation) -> str:
    return f"rank {item.rank}" if item.host is None else f"device of rank {item.rank}"


def _device_rows(culprit: RankSituation, diagnosis: Diagnosis | None) -> list[Evidence]:
    """Return rows on the device's and host's positions and on pending flight-recorder entries."""
    if culprit.host is None:
        return []
    rank, host = culprit.rank, culprit.host
    rows = [
        Evidence(
            f"device of rank {rank} {place_words(culprit)} for",
            culprit.moved_age,
            "seconds",
            "timing events on its compute stream",
        ),
        text_evidence(f"host of rank {rank}", place_words(host), "it enqueues ahead of its device"),
    ]
    for pending in _oldest_pending(diagnosis):
        text = f"{pending.op} #{pending.number} {pending.state}"
        against = f"the oldest that has not completed, of group {pending.group}"
        rows.append(text_evidence(f"flight recorder of rank {rank}", text, against))
    return rows


def _oldest_pending(diagnosis: Diagnosis | None) -> list[FlightEntry]:
    """Return each group's oldest pending entry: numbers are not comparable between groups."""
    oldest: dict[str, FlightEntry] = {}
    for entry in diagnosis.flight if diagnosis is not None else ():
        if entry.state != _COMPLETED and (
            entry.group not in oldest or entry.number < oldest[entry.group].number
        ):
            oldest[entry.group] = entry
    return list(oldest.values())[-_MOST_PENDING:]


def _absence(culprit: RankSituation, stall: Stall) -> str:
    """Return the culprit's omission: the collective that it did not enter, if known."""
    inside = waiter_for({culprit.rank}, stall.ranks, stall.diagnostics.groups)
    members = stall.diagnostics.groups.get(inside.group, "") if inside is not None else ""
    group_words = f" of group {members}" if members else ""
    missed = next((item for item in stall.lacking if item.rank == culprit.rank), None)
    if missed is not None:
        missed_group = group_words or f" of group {missed.group}"
        return f"did not enter {missed.op} #{missed.number}{missed_group}"
    if inside is not None and not culprit.in_collective:
        return f"did not arrive in {op_name(inside.op)}{group_words}"
    return "did not arrive" if len(stall.ranks) > 1 else "does not go on"


def _about(
    culprit: RankSituation,
    absent: str,
    diagnosis: Diagnosis | None,
    waiters: str,
) -> list[Evidence]:
    evidence = [
        Evidence(
            f"heartbeat of rank {culprit.rank}",
            culprit.heartbeat_age,
            "seconds ago",
            f"beyond {STALE_AFTER_SECONDS:.0f} s its interpreter is blocked",
        ),
        text_evidence(f"rank {culprit.rank}", absent, waiters),
    ]
    if diagnosis is None:
        return evidence
    if diagnosis.line:
        evidence.append(line_row(culprit.rank, diagnosis))
    if diagnosis.gil is not GilState.UNKNOWN:
        state = diagnosis.gil.name.lower()
        evidence.append(text_evidence("its interpreter lock", state, "free while others may run"))
    if diagnosis.note:
        evidence.append(
            text_evidence("not known", diagnosis.note, "asked by the agent of its node")
        )
    return evidence


def line_row(rank: int, diagnosis: Diagnosis) -> Evidence:
    """Return a rank's position in the user's code, with the other frames of its stack."""
    innermost, _, callers = diagnosis.stack.partition(FRAMES)
    is_own = innermost == f"{diagnosis.function} {diagnosis.line}"
    against = f"called from {callers}" if callers else "the outermost frame"
    text = f"{diagnosis.line} in {diagnosis.function}"
    return text_evidence(
        f"Python line of rank {rank}", text, against if is_own else diagnosis.stack
    )


def op_name(op: int) -> str:
    """Return the name of an operation code from a line; a later version's code is `other`."""
    return OP_NAMES[op] if op < len(OP_NAMES) else OP_NAMES[0]


def shared_cause(ranks: list[RankSituation]) -> tuple[Cause, str]:
    """Return the cause shared by all ranks if no rank is an outlier.

    It is known if all devices are inside one operation.
    """
    inside = {item.op if item.in_collective and item.host is not None else None for item in ranks}
    if len(inside) == 1 and (op := inside.pop()) is not None:
        words = f"the devices of all ranks are in {op_name(op)}, which does not end"
        return Cause.DEVICE_STUCK, f"{words}; no rank stands out"
    return Cause.UNKNOWN, "no rank stands out"


def cause_of(culprit: RankSituation, diagnosis: Diagnosis | None) -> tuple[Cause, str]:
    """Return why `culprit` does not arrive: a cause, and words that complete `rank 2 ..., and`."""
    by_state = {
        ProcessState.GONE: (Cause.PROCESS_GONE, "its process is gone"),
        ProcessState.ZOMBIE: (Cause.PROCESS_GONE, "its process has died"),
        ProcessState.STOPPED: (Cause.PROCESS_STOPPED, "its process is stopped (SIGSTOP)"),
        ProcessState.UNINTERRUPTIBLE: (
            Cause.UNINTERRUPTIBLE_IO,
            "its process is blocked in the kernel",
        ),
    }
    if culprit.host is not None and culprit.process not in DEAD:
        inside = "a collective" if culprit.in_collective else "a kernel"
        return Cause.DEVICE_STUCK, f"{inside} on its device does not end"
    if culprit.process in by_state:
        return by_state[culprit.process]
    is_locked = diagnosis is not None and diagnosis.gil is GilState.HELD
    if is_locked or is_interpreter_held(culprit):
        return Cause.INTERPRETER_BLOCKED, "its interpreter lock is held: no other thread runs"
    if culprit.work or culprit.process is ProcessState.RUNNING:
        return Cause.BUSY, "its process is busy"
    return Cause.NOT_ARRIVED, "its process sleeps: blocked outside any collective we see"


def finding_on_several(stall: Stall, few: list[RankSituation]) -> Finding:
    """Return the finding on a stall that several ranks share for one reason; it names no rank."""
    cause, state = _STATES[few[0].process]
    ranks_label = who_words(few, stall.ranks)
    words = f"{ranks_label} {state}"
    rows = [
        text_evidence(ranks_label, state, "one reason that they share, and no rank's own fault")
    ]
    return _finding(stall, cause, words, rows, Confidence.CERTAIN, node_of(few))


def finding_without_rank(stall: Stall) -> Finding:
    """Return the finding on a stall in which no observed rank is an outlier."""
    if are_all_frozen(stall.ranks):
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
        summary=f"the job has made no progress in step {step} for {stall.seconds:.0f} s: {words}",
        began_step=step,
        began_ago_seconds=stall.seconds,
        severity=stall.seconds,
        lost_ratio=1.0,
        evidence=(*standing(stall.ranks, stall.seconds), *rows),
        node=node,
        confidence=confidence,
    )
