"""Checkpoint stall: the training loop waits longer than usual, or too often, for a checkpoint.

A checkpoint in progress is evaluated while it lasts. Failed checkpoints are findings too: they cost
the next restart.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.signals.arrays import Vector
from stepwatch.signals.exits import Weight, explain
from stepwatch.signals.names import Cause, FindingKind


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a checkpoint that blocks the job."""

    least_ratio: float = 3.0
    """Ratio: a slow stall over the attempt's usual one. The usual stall is the lower quartile of
    stalls that were not slow.
    """
    least_excess_seconds: float = 2.0
    """Seconds: the excess over the usual stall, and at least a usual step: with steps of half a
    minute, two seconds do not matter. Page cache write-back on a busy host delays a healthy save by
    a second.
    """
    first_seconds: float = 300.0
    """Seconds: the longest healthy first save of an attempt. It allocates, creates directories and
    has no reference; the field reports blocks of eleven minutes, which end in a collective's
    timeout.
    """
    shown_seconds: float = 60.0
    """Seconds: how long a completed slow checkpoint remains a finding, unless a good one comes
    first.
    """
    most_share: float = 0.035
    """Share: the run's time that saves may take. The objective is 1 % (M6); the best synchronous
    systems report 3.5 % (CheckFreq).
    """
    share_seconds: float = 31.5
    """Seconds: the time in saves, without the first one, from which their share counts. It is that
    share of a quarter of an hour: if saves cost half of the run, it is reached after a minute.
    """
    least_saves: int = 2
    """Saves: how many must show their share, without the first one, or that one rank took longer
    than its peers by `least_excess_seconds`. A second save separates a slow disk from a moment of
    write-back; four are retained.
    """
    others_share: float = 0.5
    """Share: a rank is an outlier if the others need less than this part of its time. Peers in one
    save differ less than saves do, so it is a smaller distance than `least_ratio`.
    """
    least_peer_seconds: float = 0.005
    """Seconds: peers that take less in a save write nothing and are no reference. If all ranks hold
    the same data, one saves for all, which is no fault of its own; its cost counts in `most_share`.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


class Saving(NamedTuple):
    """The newest checkpoint.

    `elapsed` is the longest stall so far and `began_ago` the time since the checkpoint began, in
    seconds. `ended_ago` is the time since the loop resumed, NaN while it waits. `rank_seconds`
    (ranks,) is each rank's own time in the checkpoint, NaN where unknown. `failed` counts the ranks
    that reported a failure, and `reason` is the reported reason. `saves` holds `rank_seconds` for
    the newest completed saves, oldest first.
    """

    step: int
    elapsed: float
    began_ago: float
    ended_ago: float
    rank_seconds: Vector
    failed: int
    reason: str
    saves: tuple[Vector, ...] = ()

    @property
    def in_progress(self) -> bool:
        """Return whether the training loop waits for this checkpoint now."""
        return math.isnan(self.ended_ago)


class Run(NamedTuple):
    """The history against which a checkpoint is compared.

    `earlier` holds the stalls of the attempt's earlier checkpoints, oldest first, and `total` the
    sum of all its stalls. `age` is the attempt's age and `step_seconds` its usual step. All are in
    seconds, NaN while unknown.
    """

    earlier: list[float]
    total: float
    age: float
    step_seconds: float


def detect(saving: Saving, run: Run, limits: Thresholds) -> list[Finding]:
    """Return findings on the newest checkpoint, while it is in progress and for a while after."""
    findings = []
    if _is_slow(saving, run, limits) and _is_shown(saving, run, limits):
        findings.append(_slow(saving, run, limits))
    if saving.failed:
        findings.append(_failed(saving))
    if not findings and not saving.in_progress:
        findings += _slow_saver(saving, run, limits)
    if not findings and _costs_much(saving, run, limits):
        findings.append(_too_much(saving, run, limits))
    return findings


def _is_shown(saving: Saving, run: Run, limits: Thresholds) -> bool:
    """Return whether a slow save is still a finding.

    It is one for a while, or until the next good save if the save before was slow, too.
    """
    if saving.in_progress or saving.ended_ago < limits.shown_seconds:
        return True
    return bool(run.earlier) and run.earlier[-1] > allowed_seconds(run, limits)


def _costs_much(saving: Saving, run: Run, limits: Thresholds) -> bool:
    """Return whether saves took a large share of the run, and enough seconds to be certain.

    The first save does not count: it creates files and connections that later saves reuse.
    """
    saves = len(run.earlier) + (not saving.in_progress) - 1
    seconds = run.total - (run.earlier[0] if run.earlier else 0.0)
    enough = saves >= limits.least_saves and seconds >= limits.share_seconds
    return enough and seconds > limits.most_share * run.age


def detect_in_progress(saving: Saving, run: Run, limits: Thresholds) -> list[Finding]:
    """Return at most one finding: the loop waits for the newest checkpoint longer than usual."""
    slow = saving.in_progress and _is_slow(saving, run, limits)
    return [_slow(saving, run, limits)] if slow else []


def _is_slow(saving: Saving, run: Run, limits: Thresholds) -> bool:
    return saving.elapsed > allowed_seconds(run, limits)


def allowed_seconds(run: Run, limits: Thresholds) -> float:
    """Return the longest stall that is still usual, in seconds."""
    if not run.earlier:
        return limits.first_seconds
    return _allowed_beside(usual_seconds(run, limits), run, limits)


def _allowed_beside(usual: float, run: Run, limits: Thresholds) -> float:
    step = 0.0 if math.isnan(run.step_seconds) else run.step_seconds
    return max(limits.least_ratio * usual, usual + max(limits.least_excess_seconds, step))


def usual_seconds(run: Run, limits: Thresholds) -> float:
    """Return the lower quartile of the usual stalls, in seconds.

    The very first stall is excluded if there are others. A save that is slow relative to earlier
    saves is not usual, however many slow saves follow.
    """
    if not run.earlier or any(map(math.isnan, run.earlier)):
        return math.nan
    usual: list[float] = []
    allowed = math.inf
    for stall in run.earlier[1:] or run.earlier:
        if stall <= allowed:
            insort(usual, stall)
            allowed = _allowed_beside(_lower_quartile(usual), run, limits)
    return _lower_quartile(usual)


def _lower_quartile(ordered: list[float]) -> float:
    return ordered[(len(ordered) - 1) // 4]


def slowest(seconds: Vector, limits: Thresholds) -> int:
    """Return the rank that took far longer than all others, or `NO_RANK` if there is none."""
    reported = (~np.isnan(seconds)).sum()
    if reported < 2 or 2 * reported < len(seconds):
        return NO_RANK
    rank = int(np.nanargmax(seconds))
    peers = np.delete(seconds, rank)
    return rank if np.nanmax(peers) < limits.others_share * seconds[rank] else NO_RANK


def _slow(saving: Saving, run: Run, limits: Thresholds) -> Finding:
    rank, usual = slowest(saving.rank_seconds, limits), usual_seconds(run, limits)
    against = "no earlier checkpoint" if math.isnan(usual) else f"usual {usual:.2f} s"
    verb = "has held" if saving.in_progress else "held"
    suffix = f"; rank {rank} is slowest" if rank >= 0 else ""
    evidence = [
        Evidence("stall of the training loop", saving.elapsed, "seconds", against, reference=usual)
    ]
    if rank >= 0:
        peer_seconds = float(np.nanmedian(np.delete(saving.rank_seconds, rank)))
        name, rank_seconds = f"time of rank {rank} in the checkpoint", saving.rank_seconds[rank]
        against_peers = f"the others {peer_seconds:.2f} s"
        row = Evidence(name, float(rank_seconds), "seconds", against_peers, reference=peer_seconds)
        evidence.append(row)
    return _finding(
        saving,
        f"the checkpoint of step {saving.step} {verb} the job up for {saving.elapsed:.1f} s "
        f"({against}){suffix}",
        evidence,
        rank=rank,
        severity=saving.elapsed - (0.0 if math.isnan(usual) else usual),
        ratio=saving.elapsed / usual if usual > 0 else math.nan,
        lost_ratio=1.0 if saving.in_progress else 0.0,
    )


def _slow_saver(saving: Saving, run: Run, limits: Thresholds) -> list[Finding]:
    """Return one finding if one rank takes longer than its peers in save after save.

    The rank is compared with its peers in the same save: a rank that is slow from the first save
    has no other baseline.
    """
    newest = saving.saves[-limits.least_saves :]
    savers = {_saver(save, limits) for save in newest}
    if len(newest) < limits.least_saves or len(savers) != 1 or NO_RANK in savers:
        return []
    rank = savers.pop()
    rank_seconds = float(np.median([save[rank] for save in newest]))
    peer_seconds = float(np.median([np.median(_writers(save, rank, limits)) for save in newest]))
    excess, saves = rank_seconds - peer_seconds, len(run.earlier) + 1
    name, against = (
        f"time of rank {rank} in a checkpoint",
        f"its peers in the same ones {peer_seconds:.2f} s",
    )
    return [
        _finding(
            saving,
            f"rank {rank} takes {rank_seconds:.1f} s in each of the newest {len(newest)} "
            f"checkpoints, up to that of step {saving.step}; the others take {peer_seconds:.2f} s, "
            "and wait for it",
            [Evidence(name, rank_seconds, "seconds", against, reference=peer_seconds)],
            rank=rank,
            severity=excess,
            ratio=rank_seconds / peer_seconds if peer_seconds > 0 else math.nan,
            lost_ratio=min(1.0, excess * saves / run.age if run.age > 0 else math.nan),
        )
    ]


def _saver(seconds: Vector, limits: Thresholds) -> int:
    """Return the rank that delayed one save by enough to matter.

    The result is `NO_RANK` if there is none, or if the rank saves on behalf of all others.
    """
    rank = slowest(seconds, limits)
    if rank == NO_RANK:
        return NO_RANK
    writers = _writers(seconds, rank, limits)
    slow = len(writers) and seconds[rank] - np.median(writers) >= limits.least_excess_seconds
    return rank if slow else NO_RANK


def _writers(seconds: Vector, rank: int, limits: Thresholds) -> Vector:
    """Return the seconds of the ranks except `rank` that also wrote something; `seconds` (ranks,).

    Among tensor and data parallel ranks, only one replica's ranks write: 10, 60, 0, 0 -> 10 next to
    60.
    """
    peers = np.delete(seconds, rank)
    return np.asarray(peers[peers >= limits.least_peer_seconds])


def _failed(saving: Saving) -> Finding:
    ranks = len(saving.rank_seconds)
    return _finding(
        saving,
        f"the checkpoint of step {saving.step} failed on {saving.failed} of {ranks} ranks: "
        f"{saving.reason or 'no reason given'}",
        [Evidence("ranks whose checkpoint failed", saving.failed, "ranks", f"of {ranks}")],
        cause=_cause_of_failure(saving.reason),
        severity=0.0,
        lost_ratio=0.0,
        subject="failed",
    )


def _cause_of_failure(reason: str) -> Cause:
    explanation = explain([reason])
    is_specific = explanation is not None and explanation.pattern.weight is Weight.SPECIFIC
    return explanation.pattern.cause if explanation is not None and is_specific else Cause.EXCEPTION


def _too_much(saving: Saving, run: Run, limits: Thresholds) -> Finding:
    share, most = run.total / run.age, f"at most {limits.most_share:.1%}"
    return _finding(
        saving,
        f"checkpoints have held the job up for {share:.1%} of its time: {run.total:.0f} s in "
        f"{run.age:.0f} s",
        [Evidence("share of run time in checkpoints", share, "ratio", most)],
        severity=run.total,
        lost_ratio=share,
        subject="share",
    )


def _finding(
    saving: Saving,
    summary: str,
    evidence: list[Evidence],
    *,
    severity: float,
    lost_ratio: float,
    rank: int = NO_RANK,
    ratio: float = math.nan,
    cause: Cause = Cause.SLOW_STORAGE,
    subject: str = "",
) -> Finding:
    return build_finding(
        kind=FindingKind.CHECKPOINT_STALL,
        phase="checkpoint",
        began_step=saving.step,
        began_ago_seconds=saving.began_ago,
        cause=cause,
        summary=summary,
        evidence=evidence,
        rank=rank,
        severity=severity,
        ratio=ratio,
        lost_ratio=lost_ratio,
        subject=subject,
    )
