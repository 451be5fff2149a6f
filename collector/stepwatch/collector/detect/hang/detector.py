"""Hang: no rank makes progress for longer than the job's phase allows; who did not arrive, and why.

Ages are taken on each node's own monotonic clock, so no two clocks are compared. The rank that did
not arrive is the one that is neither inside a collective nor waiting for a pipeline neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from stepwatch.collector.detect.finding import (
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.detect.thresholds import load
from stepwatch.collector.state.diagnoses import Diagnosis
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import OP_NAMES, GilState, Phase, ProcessState, phase_name


class Thresholds(NamedTuple):
    """When a job is stalled; see `thresholds.toml`."""

    least_seconds: float
    step_multiple: float
    first_step_seconds: float
    early_seconds: float
    pause_seconds: float
    heartbeat_seconds: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


class RankSituation(NamedTuple):
    """One rank as its agent last saw it; ages in seconds before the agent's poll.

    `moved_age` is the time since its live or collective line changed, `heartbeat_age` since its
    hooks' side thread ran.
    """

    rank: int
    step: int
    phase: int
    microbatch: int
    waiting: bool
    in_collective: bool
    op: int
    moved_age: float
    heartbeat_age: float
    process: ProcessState
    group: int = 0


class Missed(NamedTuple):
    """A collective that `rank` did not enter while others wait in it, by their flight recorders."""

    rank: int
    op: str
    number: int
    group: str
    waiters: int


class Asked(NamedTuple):
    """What the ranks were found doing since they stalled, by rank, and the groups' members.

    `groups` maps the low 16 bits of a group's number, as the collective line holds them, to its
    ranks as text.
    """

    diagnoses: Mapping[int, Diagnosis] = MappingProxyType({})
    groups: Mapping[int, str] = MappingProxyType({})


NOBODY_ASKED = Asked()


def missed_collectives(diagnoses: Mapping[int, Diagnosis]) -> list[Missed]:
    """Ranks whose recorder lacks the newest collective of a group that others have entered.

    A rank counts only if it knows the group and its recorder answered.
    """
    missed: list[Missed] = []
    newest = {rank: item.newest() for rank, item in diagnoses.items() if item.answered}
    for group in sorted({group for entries in newest.values() for group in entries}):
        numbers = {rank: entries[group] for rank, entries in newest.items() if group in entries}
        last = max(numbers.values(), key=lambda entry: entry.number)
        waiters = sum(entry.number == last.number for entry in numbers.values())
        missed += [
            Missed(rank, last.op, entry.number + 1, group, waiters)
            for rank, entry in numbers.items()
            if entry.number == last.number - 1
        ]
    return missed


def detect(
    ranks: list[RankSituation],
    median_step: float,
    longest_step: float,
    limits: Thresholds,
    asked: Asked = NOBODY_ASKED,
) -> list[Finding]:
    """One finding if nothing moves; `median_step` in seconds, NaN while unknown, and `longest_step`
    that of the attempt so far, NaN before the first step has ended.

    `ranks` leaves out those that have finished. No rank known is no finding: that is for the
    telemetry detector.
    """
    if not ranks:
        return []
    stalled_for = min(situation.moved_age for situation in ranks)
    if stalled_for < allowed_seconds(ranks, median_step, longest_step, limits):
        return []
    missing = [item for item in ranks if not item.waiting and not item.in_collective]
    lacking = missed_collectives(asked.diagnoses)
    culprit = _culprit(ranks, missing, lacking)
    return [
        _finding(
            ranks=ranks,
            culprit=culprit,
            stalled_for=stalled_for,
            limits=limits,
            asked=asked,
            lacking=lacking,
        )
    ]


def allowed_seconds(
    ranks: list[RankSituation], median_step: float, longest_step: float, limits: Thresholds
) -> float:
    """How long all ranks may make no progress in the phase they are in."""
    if any(item.phase in (Phase.CHECKPOINT, Phase.EVAL) for item in ranks):
        return limits.pause_seconds
    if math.isnan(longest_step):
        return limits.first_step_seconds
    if math.isnan(median_step):
        early = max(limits.early_seconds, limits.step_multiple * longest_step)
        return min(early, limits.first_step_seconds)
    return max(limits.least_seconds, limits.step_multiple * median_step)


def _culprit(
    ranks: list[RankSituation], missing: list[RankSituation], lacking: list[Missed]
) -> RankSituation | None:
    """The rank all others wait for: a dead or stopped one first, else the one that is behind.

    Where the lines do not name one rank (the hooks may not see the trainer's collectives), the
    flight recorders do: `lacking` entered one collective less. A rank that waits may be seen
    blocked in the kernel for a moment; only one that does not wait holds the others up by it.
    """
    for state in (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED):
        for item in ranks:
            if item.process is state:
                return item
    blocked = [item for item in missing if item.process is ProcessState.UNINTERRUPTIBLE]
    if blocked:
        return blocked[0]
    if not missing or len(missing) == len(ranks) > 1:
        behind = {item.rank for item in lacking}
        found = [item for item in ranks if item.rank in behind]
        return found[0] if len(found) == 1 else None
    return max(missing, key=lambda item: (-item.step, item.moved_age))


def _finding(
    ranks: list[RankSituation],
    culprit: RankSituation | None,
    stalled_for: float,
    limits: Thresholds,
    asked: Asked,
    lacking: list[Missed],
) -> Finding:
    step = min(item.step for item in ranks)
    evidence = _standing(ranks, stalled_for)
    if culprit is None:
        summary = (
            f"the job has made no progress in step {step} for {stalled_for:.0f} s; "
            "no rank stands out"
        )
        return build_finding(
            kind=FindingKind.HANG,
            cause=Cause.UNKNOWN,
            summary=summary,
            began_step=step,
            began_ago_seconds=stalled_for,
            severity=stalled_for,
            lost_ratio=1.0,
            evidence=evidence,
        )
    phase = phase_name(culprit.phase)
    diagnosis = asked.diagnoses.get(culprit.rank)
    cause, words = _cause(culprit, diagnosis, limits)
    absent = _absence(culprit, ranks, asked, lacking)
    where = f"it is in {phase}, microbatch {culprit.microbatch}"
    if diagnosis is not None and diagnosis.line:
        where = f"it is at {diagnosis.line} in {diagnosis.function} ({phase})"
    summary = (
        f"the job has made no progress in step {step} for {stalled_for:.0f} s: "
        f"rank {culprit.rank} {absent}; "
        f"{where}, and {words}"
    )
    evidence += _about(culprit, absent, diagnosis, limits)
    return build_finding(
        kind=FindingKind.HANG,
        cause=cause,
        summary=summary,
        rank=culprit.rank,
        phase=phase,
        began_step=step,
        began_ago_seconds=culprit.moved_age,
        severity=culprit.moved_age,
        lost_ratio=1.0,
        evidence=evidence,
    )


def _standing(ranks: list[RankSituation], stalled_for: float) -> list[Evidence]:
    waiting = [item for item in ranks if item.waiting or item.in_collective]
    evidence = [
        Evidence("time without progress of any rank", stalled_for, "seconds", "0 while training"),
        Evidence("ranks waiting for others", len(waiting), "ranks", f"of {len(ranks)}"),
    ]
    inside = next((item for item in ranks if item.in_collective), None)
    if inside is not None:
        evidence.append(
            Evidence(
                f"rank {inside.rank} waits in {_op_name(inside.op)} for",
                inside.moved_age,
                "seconds",
                "an arrival that does not come",
            )
        )
    return evidence


def _absence(
    culprit: RankSituation, ranks: list[RankSituation], asked: Asked, lacking: list[Missed]
) -> str:
    """What the culprit did not do: the collective it did not enter, if that is known."""
    inside = next((item for item in ranks if item.in_collective and item is not culprit), None)
    members = asked.groups.get(inside.group, "") if inside is not None else ""
    of = f" of group {members}" if members else ""
    missed = next((item for item in lacking if item.rank == culprit.rank), None)
    if missed is not None:
        return f"did not enter {missed.op} #{missed.number}{of or f' of group {missed.group}'}"
    if inside is not None and not culprit.in_collective:
        return f"did not arrive in {_op_name(inside.op)}{of}"
    return "did not arrive"


def _about(
    culprit: RankSituation, absent: str, diagnosis: Diagnosis | None, limits: Thresholds
) -> list[Evidence]:
    evidence = [
        Evidence(
            f"heartbeat of rank {culprit.rank}",
            culprit.heartbeat_age,
            "seconds ago",
            f"beyond {limits.heartbeat_seconds:.0f} s its interpreter is blocked",
        ),
        text_evidence(f"rank {culprit.rank}", absent, "the others wait for it"),
    ]
    if diagnosis is None:
        return evidence
    if diagnosis.line:
        text = f"{diagnosis.line} in {diagnosis.function}"
        evidence.append(text_evidence(f"Python line of rank {culprit.rank}", text, diagnosis.stack))
    if diagnosis.gil is not GilState.UNKNOWN:
        state = diagnosis.gil.name.lower()
        evidence.append(text_evidence("its interpreter lock", state, "free while others may run"))
    if diagnosis.note:
        evidence.append(
            text_evidence("not known", diagnosis.note, "asked by the agent of its node")
        )
    return evidence


def _op_name(op: int) -> str:
    return OP_NAMES[op] if op < len(OP_NAMES) else OP_NAMES[0]


def _cause(
    culprit: RankSituation, diagnosis: Diagnosis | None, limits: Thresholds
) -> tuple[Cause, str]:
    by_state = {
        ProcessState.GONE: (Cause.PROCESS_GONE, "its process is gone"),
        ProcessState.ZOMBIE: (Cause.PROCESS_GONE, "its process has died"),
        ProcessState.STOPPED: (Cause.PROCESS_STOPPED, "its process is stopped (SIGSTOP)"),
        ProcessState.UNINTERRUPTIBLE: (
            Cause.UNINTERRUPTIBLE_IO,
            "its process is blocked in the kernel",
        ),
    }
    if culprit.process in by_state:
        return by_state[culprit.process]
    held = diagnosis is not None and diagnosis.gil is GilState.HELD
    if held or culprit.heartbeat_age > limits.heartbeat_seconds:
        return Cause.INTERPRETER_BLOCKED, "its interpreter lock is held: no other thread runs"
    if culprit.process is ProcessState.RUNNING:
        return Cause.BUSY, "its process is busy"
    return Cause.NOT_ARRIVED, "its process sleeps: blocked outside any collective we see"
