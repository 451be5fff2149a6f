"""Data skew: a rank trains on persistently more, or fewer, tokens per step than its peers.

Peers are the ranks in its pipeline stage that report tokens; a rank that reports none is no peer.
Deviations are logarithms, so twice and half have equal weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.peers import FEW, median_of_others
from stepwatch.collector.detect.registry import Detector, When
from stepwatch.collector.detect.steps import first_of_run
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.evidence.step_window import MAX_STAGES, Window
from stepwatch.signals.arrays import Integers, Mask, Matrix, Matrix32, Vector
from stepwatch.signals.names import Cause, FindingKind

WORK_PHASES = ("forward", "backward")
"""Phases whose time grows with the tokens."""

_FULL = float(np.iinfo(np.uint32).max)
"""The largest count that a record holds: the true count did not fit, so it is unknown."""
_MEDIAN_OF_SQUARE = 0.455
"""Median of a squared standard normal value (chi-squared with one degree of freedom)."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a rank's uneven share of the data."""

    least_ratio: float = 1.25
    """Ratio: a rank's tokens over its peers', or theirs over its. A batch scheduler would call a
    quarter more work in every step uneven; packing to a fixed length stays within a few percent.
    """
    window_steps: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Steps: the newest ones that are evaluated, a window each. The shortest names an uneven shard
    of fixed batches within 10 s for steps up to 1 s; longer ones average out the noise of random
    lengths.
    """
    parts: int = 4
    """Parts: how many a window has. Each must deviate by half the ratio, so that one anomalous
    batch raises nothing.
    """
    least_errors: float = 8.0
    """Standard errors: the least mean deviation. Tens of thousands of ranks are evaluated each
    second for weeks: 1e10 tests, and lengths are not normal.
    """
    least_block_errors: float = 5.0
    """Standard errors: the same by the means over blocks of a window's size. Lengths may come in
    runs (sorted shards, one long document after another), so the scatter of the blocks counts, too.
    """
    most_findings: int = 4
    """Findings: the most per stage. Deviations on more ranks are natural to the data."""
    most_ratio: float = 16.0
    """Ratio: beyond this, between a rank's tokens and its peers', its work must differ by
    `least_ratio`, too, or its count is wrong. Attention over a full sequence alone costs more than
    over a sixteenth.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


class Skew(NamedTuple):
    """A rank whose tokens deviate: the deviation as a logarithm, and its first step's index."""

    rank: int
    deviation: float
    since: int


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on ranks whose steps hold more, or fewer, tokens than their peers' steps."""
    return [context.dated(item) for item in detect(context.window, context.thresholds(LIMITS))]


def detect(window: Window, limits: Thresholds) -> list[Finding]:
    """Return findings on the newest steps of `window`, the worst in each stage first.

    There is no finding if `window` has more stages than a pipeline can have.
    """
    tokens = window.planes["tokens"].astype(np.float64)
    tokens[tokens >= _FULL] = 0.0
    findings: list[Finding] = []
    stages = np.unique(window.stage)
    for stage in stages.tolist() if len(stages) <= MAX_STAGES else ():
        members = _members(tokens, np.flatnonzero(window.stage == stage), limits)
        if not _drifts(_newest_logs(tokens, members, limits), limits):
            continue
        steps = np.flatnonzero((tokens[:, members] > 0).all(axis=1))
        logs = np.log(tokens[np.ix_(steps, members)])
        while len(members) >= 2 and len(findings) < limits.most_findings:
            skew = _worst(logs, limits)
            if skew is None:
                break
            if not _is_contradicted(window, members, steps, skew, limits):
                findings.append(_finding(window, members, steps, skew))
            logs = np.delete(logs, skew.rank, axis=1)
            members = np.delete(members, skew.rank)
    return findings


def _members(tokens: Matrix, ranks: Integers, limits: Thresholds) -> Integers:
    """Return the ranks with tokens in each of the newest steps that all ranks reported."""
    complete = np.flatnonzero(~np.isnan(tokens[:, ranks]).any(axis=1))
    if len(complete) < min(limits.window_steps):
        return ranks[:0]
    newest = complete[-min(limits.window_steps) :]
    return np.asarray(ranks[(tokens[np.ix_(newest, ranks)] > 0).all(axis=0)])


def _newest_logs(tokens: Matrix, members: Integers, limits: Thresholds) -> Matrix:
    """Return log tokens for the newest steps in which all members have tokens.

    Only a few rows are read if they are complete, which is nearly always the case.
    """
    count = min(limits.window_steps)
    for back in (4 * count, len(tokens)):
        part = tokens[-back:][:, members]
        complete = np.flatnonzero((part > 0).all(axis=1))[-count:]
        if len(complete) == count:
            break
    return np.asarray(np.log(part[complete]))


def _drifts(newest: Matrix, limits: Thresholds) -> bool:
    """Return whether any column of the newest steps deviates from the others."""
    if newest.shape[1] < 2 or not len(newest):
        return False
    drift = np.abs((newest - _peers(newest)).mean(axis=0))
    return bool(drift.max() >= math.log(limits.least_ratio) / 2)


def _worst(logs: Matrix, limits: Thresholds) -> Skew | None:
    """Return the column with the largest certain deviation.

    If two columns mirror each other, the larger one counts.
    """
    if not _drifts(logs[-min(limits.window_steps) :], limits):
        return None
    away = logs - _peers(logs)
    worst: Skew | None = None
    for count in limits.window_steps:
        if count > len(away):
            break
        named, mean = _named(away, count, limits)
        for rank in np.flatnonzero(named).tolist():
            weight = (round(abs(mean[rank]), 6), mean[rank] > 0)
            if worst is None or weight > (round(abs(worst.deviation), 6), worst.deviation > 0):
                belongs = away[:, rank] * np.sign(mean[rank]) >= abs(mean[rank]) / 2
                worst = Skew(rank, float(mean[rank]), first_of_run(belongs))
    return worst


def _peers(logs: Matrix) -> Matrix:
    """Return for each (step, rank) the median of the other ranks."""
    if logs.shape[1] > FEW:
        return np.asarray(np.median(logs, axis=1, keepdims=True))
    return np.asarray(median_of_others(logs[:, None, :])[:, 0, :])


def _chance(away: Matrix, count: int, limits: Thresholds) -> float:
    """Return the largest mean over `count` steps that may be chance.

    It allows for the scatter of single steps (from differences, to which a lasting shift adds
    nothing) and for the scatter of whole blocks on the usual rank, as sequence lengths may come in
    runs. Fewer than four ranks have no usual one.
    """
    scatter = float(np.mean(np.diff(away, axis=0) ** 2)) / 2
    chance = limits.least_errors * math.sqrt(scatter / count)
    for length in limits.window_steps if away.shape[1] >= 4 else ():
        blocks = len(away) // length
        if length <= count and blocks >= limits.parts:
            means = away[-blocks * length :].reshape(blocks, length, -1).mean(axis=1)
            usual = float(np.median((means**2).mean(axis=0))) / _MEDIAN_OF_SQUARE
            chance = max(chance, limits.least_block_errors * math.sqrt(usual * length / count))
    return chance


def _named(away: Matrix, count: int, limits: Thresholds) -> tuple[Mask, Vector]:
    """Return which columns deviate in the newest `count` steps, and their mean deviations."""
    least = math.log(limits.least_ratio)
    recent = away[-count:]
    mean: Vector = recent.mean(axis=0)
    sense = np.sign(mean)
    parts = recent.reshape(limits.parts, -1, recent.shape[1]).mean(axis=1)
    named = np.abs(mean) >= max(least, _chance(away, count, limits))
    named &= (parts * sense >= least / 2).all(axis=0)
    columns = np.flatnonzero(named)
    named[columns] = np.median(recent[:, columns], axis=0) * sense[columns] >= least
    return np.asarray(named), mean


def _is_contradicted(
    window: Window, members: Integers, steps: Integers, skew: Skew, limits: Thresholds
) -> bool:
    """Return whether the counts contradict the work times.

    The counts differ more than loaders explain although the rank works as long as its peers: it
    counts something else, or nothing.
    """
    if abs(skew.deviation) < math.log(limits.most_ratio):
        return False
    me, peers = members[[skew.rank]], np.delete(members, skew.rank)
    rank_work, peer_work = (_work(window, steps[skew.since :], ranks) for ranks in (me, peers))
    low, high = sorted((rank_work, peer_work))
    return high <= limits.least_ratio * low


def _work(window: Window, rows: Integers, ranks: Integers) -> float:
    """Return the median step seconds of `ranks` in the phases that grow with the tokens."""
    work = np.sum([window.planes[phase] for phase in WORK_PHASES], axis=0)
    return _median(work, rows, ranks)


def _finding(window: Window, members: Integers, steps: Integers, skew: Skew) -> Finding:
    rank = int(members[skew.rank])
    me = members[[skew.rank]]
    peers = np.delete(members, skew.rank)
    shown = steps[skew.since :]
    tokens = window.planes["tokens"]
    rank_tokens, peer_tokens = _median(tokens, shown, me), _median(tokens, shown, peers)
    self_time, peer_work = (_work(window, shown, ranks) for ranks in (me, peers))
    ratio = rank_tokens / peer_tokens
    first = int(window.steps[shown[0]])
    summary = (
        f"rank {rank} trains on {ratio:.2f}x the tokens of its peers since step {first}: "
        f"{rank_tokens:.0f} a step, they {peer_tokens:.0f}"
    )
    evidence = (
        Evidence(
            "tokens per step",
            rank_tokens,
            "tokens",
            f"peers {peer_tokens:.0f}",
            reference=peer_tokens,
        ),
        Evidence(
            "forward and backward",
            self_time,
            "seconds",
            f"peers {in_words(peer_work)}",
            reference=peer_work,
        ),
    )
    return build_finding(
        kind=FindingKind.DATA_SKEW,
        rank=rank,
        phase="data",
        cause=Cause.UNEVEN_SHARDS,
        summary=summary,
        began_step=first,
        began_ago_seconds=float(np.nansum(np.nanmax(window.planes["duration"][shown], axis=1))),
        severity=abs(skew.deviation),
        ratio=ratio,
        evidence=evidence,
    )


def _median(plane: Matrix32, rows: Integers, ranks: Integers) -> float:
    return float(np.nanmedian(plane[np.ix_(rows, ranks)]))


DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.DATA_SKEW}),
        when=When.PROGRESSING,
        order=30,
        find=find,
        from_steps=True,
    ),
)
