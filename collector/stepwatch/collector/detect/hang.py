"""Hang: no rank has moved for longer than the job's phase allows; who did not arrive, and why.

Ages are taken on each node's own monotonic clock, so no two clocks are compared. The rank that did
not arrive is the one that is neither inside a collective nor waiting for a pipeline neighbour.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding
from stepwatch.collector.detect.thresholds import load
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import OP_NAMES, PHASE_NAMES, Phase, ProcessState


class Thresholds(NamedTuple):
    """When a job stands still; see `hang.toml`."""

    least_seconds: float
    step_multiple: float
    first_step_seconds: float
    pause_seconds: float
    heartbeat_seconds: float


LIMITS = load("hang", Thresholds)
"""The shipped thresholds."""


class RankSituation(NamedTuple):
    """One rank as its agent last saw it; ages in seconds before the agent's look.

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


def detect(
    ranks: list[RankSituation], median_step: float, first_done: bool, limits: Thresholds
) -> list[Finding]:
    """One finding if nothing moves; `median_step` in seconds, NaN while unknown.

    `ranks` leaves out those that have finished. No rank known is no finding: that is for the
    telemetry detector.
    """
    if not ranks:
        return []
    still = min(situation.moved_age for situation in ranks)
    if still < allowed_seconds(ranks, median_step, first_done, limits):
        return []
    missing = [item for item in ranks if not item.waiting and not item.in_collective]
    culprit = _culprit(ranks, missing)
    return [_finding(ranks, culprit, still, limits)]


def allowed_seconds(
    ranks: list[RankSituation], median_step: float, first_done: bool, limits: Thresholds
) -> float:
    """How long all ranks may be silent in the phase they are in."""
    if any(item.phase in (Phase.CHECKPOINT, Phase.EVAL) for item in ranks):
        return limits.pause_seconds
    if not first_done or math.isnan(median_step):
        return limits.first_step_seconds
    return max(limits.least_seconds, limits.step_multiple * median_step)


def _culprit(ranks: list[RankSituation], missing: list[RankSituation]) -> RankSituation | None:
    """The rank all others wait for: a dead or stopped one first, else the one that is behind.

    A rank that waits may be seen blocked in the kernel for a moment; only one that does not wait
    holds the others up by it.
    """
    for state in (ProcessState.GONE, ProcessState.ZOMBIE, ProcessState.STOPPED):
        for item in ranks:
            if item.process is state:
                return item
    blocked = [item for item in missing if item.process is ProcessState.UNINTERRUPTIBLE]
    if blocked:
        return blocked[0]
    if not missing or len(missing) == len(ranks) > 1:
        return None
    return max(missing, key=lambda item: (-item.step, item.moved_age))


def _finding(
    ranks: list[RankSituation],
    culprit: RankSituation | None,
    still: float,
    limits: Thresholds,
) -> Finding:
    step = min(item.step for item in ranks)
    waiting = [item for item in ranks if item.waiting or item.in_collective]
    evidence = [
        Evidence("seconds without movement of any rank", still, "seconds", "0 while training"),
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
    if culprit is None:
        summary = f"the job stands still in step {step} for {still:.0f} s; no rank stands out"
        return _hang(NO_RANK, "other", Cause.UNKNOWN, summary, step, still, evidence)
    phase = PHASE_NAMES[culprit.phase] if culprit.phase < len(PHASE_NAMES) else "other"
    cause, words = _cause(culprit, limits)
    evidence.append(
        Evidence(
            f"heartbeat of rank {culprit.rank}",
            culprit.heartbeat_age,
            "seconds ago",
            f"beyond {limits.heartbeat_seconds:.0f} s its interpreter is blocked",
        )
    )
    summary = (
        f"the job stands still in step {step} for {still:.0f} s: rank {culprit.rank} did not "
        f"arrive; it is in {phase}, microbatch {culprit.microbatch}, and {words}"
    )
    return _hang(culprit.rank, phase, cause, summary, step, culprit.moved_age, evidence)


def _op_name(op: int) -> str:
    return OP_NAMES[op] if op < len(OP_NAMES) else OP_NAMES[0]


def _cause(culprit: RankSituation, limits: Thresholds) -> tuple[Cause, str]:
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
    if culprit.heartbeat_age > limits.heartbeat_seconds:
        return Cause.INTERPRETER_BLOCKED, "its interpreter runs no other thread: the GIL is held"
    if culprit.process is ProcessState.RUNNING:
        return Cause.BUSY, "its process is busy"
    return Cause.NOT_ARRIVED, "its process sleeps: blocked outside any collective we see"


def _hang(
    rank: int,
    phase: str,
    cause: Cause,
    summary: str,
    step: int,
    ago: float,
    evidence: list[Evidence],
) -> Finding:
    return Finding(
        FindingKind.HANG,
        rank,
        phase,
        cause,
        summary,
        step,
        ago,
        ago,
        math.nan,
        1.0,
        tuple(evidence),
    )
