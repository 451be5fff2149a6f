"""Straggler: a rank whose own work takes longer than that of ranks with the same work.

Self times exclude every wait, so the slow rank is the one that works longer, while the ranks it
holds back show it as wait. Peers are the other ranks of its pipeline stage; a rank without peers is
held against its own past.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding
from stepwatch.collector.detect.steps import first_of_run, step_seconds, usable_steps
from stepwatch.collector.detect.thresholds import load
from stepwatch.collector.window import Window
from stepwatch.signals.names import Cause, FindingKind

WORK_PHASES = ("forward", "backward", "optimizer", "data", "other")
"""Phases that are a rank's own work; checkpoint and evaluation may rightly differ."""

Floats = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
Flags = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


class Thresholds(NamedTuple):
    """When a rank is slow; see `straggler.toml`."""

    window_steps: int
    least_steps: int
    certain_steps: int
    certain_ratio: float
    certain_excess_ratio: float
    least_ratio: float
    least_excess_ratio: float
    warmup_steps: int
    run_queue_share: float


LIMITS = load("straggler", Thresholds)
"""The shipped thresholds."""


class RankFacts(NamedTuple):
    """What the node says of each rank over the window, arrays (ranks,), NaN where unknown.

    `cpu_ratio` is CPU time per second, `run_queue_ratio` time spent runnable but not running.
    """

    cpu_ratio: Vector
    run_queue_ratio: Vector


class Judged(NamedTuple):
    """The steps that are judged: numbers, step seconds, and collective wait (steps, ranks)."""

    steps: np.ndarray[tuple[int], np.dtype[np.int64]]
    step_seconds: Vector
    collective: np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Trouble(NamedTuple):
    """A slow rank: its own and its peers' seconds per judged step, and where it began."""

    rank: int
    phase: str
    own: Vector
    peers: Vector
    since: int


def detect(window: Window, facts: RankFacts, limits: Thresholds) -> list[Finding]:
    """Findings on the newest steps of `window`, the worst first.

    `window` may hold more steps than are judged: they tell since when.
    """
    usable = usable_steps(window, limits.warmup_steps)
    if usable.sum() < limits.certain_steps:
        return []
    seconds = step_seconds(window)[usable]
    judged = Judged(window.steps[usable], seconds, window.planes["collective"][usable])
    findings = []
    for phase in WORK_PHASES:
        own = window.planes[phase][usable].astype(np.float64)
        peers = _peer_seconds(own, window.stage)
        slow = _is_slow(own, peers, seconds, limits)
        named = _is_persistent(slow, limits) | _is_certain(own, peers, seconds, limits)
        for rank in np.flatnonzero(named).tolist():
            since = _since(slow[:, rank], (own - peers)[:, rank], limits)
            trouble = Trouble(rank, phase, own[:, rank], peers[:, rank], since)
            findings.append(_finding(trouble, judged, facts, limits))
    return sorted(_worst_phase(findings), key=lambda finding: -finding.severity)


def _peer_seconds(own: Floats, stage: np.ndarray[tuple[int], np.dtype[np.int16]]) -> Floats:
    """For each (step, rank) the median of the other ranks of its stage.

    A rank without such peers is held against its own past, times what all ranks together have
    slowed down by: a whole job that slows down has no straggler.
    """
    peers = np.full_like(own, np.nan)
    past = np.median(own[: max(1, len(own) // 2)], axis=0)
    for number in np.unique(stage):
        members = np.flatnonzero(stage == number)
        if len(members) == 1:
            others = np.delete(np.arange(own.shape[1]), members)
            peers[:, members[0]] = past[members[0]] * _shared_slowdown(own[:, others], past[others])
        elif len(members) <= 8:
            for rank in members:
                peers[:, rank] = np.median(own[:, members[members != rank]], axis=1)
        else:
            peers[:, members] = np.median(own[:, members], axis=1, keepdims=True)
    return peers


def _shared_slowdown(own: Floats, past: Vector) -> Vector:
    """Per step, how much longer the least slowed half of these ranks works than in the past.

    At least 1: ranks that work less than before make no other rank slow.
    """
    known = past > 0
    if not known.any():
        return np.ones(len(own))
    ratios = np.sort(own[:, known] / past[known], axis=1)
    return np.maximum(ratios[:, (ratios.shape[1] - 1) // 2], 1.0)


def _is_slow(own: Floats, peers: Floats, step_seconds: Vector, limits: Thresholds) -> Flags:
    """Where (step, rank) exceeds its peers by enough to matter."""
    return _exceeds(own, peers, step_seconds, limits.least_ratio, limits.least_excess_ratio)


def _is_persistent(slow: Flags, limits: Thresholds) -> Mask:
    """Ranks that are slow in the newest step and in most of the window."""
    recent = slow[-limits.window_steps :]
    return np.asarray((recent.sum(axis=0) >= limits.least_steps) & recent[-1])


def _is_certain(own: Floats, peers: Floats, step_seconds: Vector, limits: Thresholds) -> Mask:
    """Ranks that are very slow in each of the newest few steps."""
    very = _exceeds(own, peers, step_seconds, limits.certain_ratio, limits.certain_excess_ratio)
    return np.asarray(very[-limits.certain_steps :].all(axis=0))


def _exceeds(
    own: Floats, peers: Floats, step_seconds: Vector, ratio: float, excess_ratio: float
) -> Flags:
    excess = own - peers
    return np.asarray(
        (own >= ratio * peers)
        & (excess >= excess_ratio * step_seconds[:, None])
        & (step_seconds[:, None] > 0)
    )


def _since(slow: Mask, excess: Vector, limits: Thresholds) -> int:
    """Index of the first step of the trouble: going back until two steps in a row lack it.

    A step belongs to it if it is slow by at least half of what the newest steps are slow by, so
    that a noisy step just before does not move the beginning.
    """
    level = float(np.median(excess[-limits.window_steps :]))
    return first_of_run(slow & (excess >= level / 2))


def _worst_phase(findings: list[Finding]) -> list[Finding]:
    """One finding per rank: the phase with the largest excess; the others follow from it."""
    worst: dict[int, Finding] = {}
    for finding in findings:
        known = worst.get(finding.rank)
        if known is None or finding.severity > known.severity:
            worst[finding.rank] = finding
    return list(worst.values())


def _finding(trouble: Trouble, judged: Judged, facts: RankFacts, limits: Thresholds) -> Finding:
    rank, phase, since = trouble.rank, trouble.phase, trouble.since
    mine, theirs = float(np.median(trouble.own[since:])), float(np.median(trouble.peers[since:]))
    step = float(np.median(judged.step_seconds[since:]))
    before = judged.step_seconds[:since]
    usual = float(np.median(before)) if len(before) >= 3 else max(step - (mine - theirs), 1e-9)
    lost = max(0.0, 1.0 - usual / step)
    ratio = mine / theirs if theirs > 0 else float("inf")
    times = f" ({ratio:.1f}x)" if theirs > 0 else ""
    first = int(judged.steps[since])
    summary = (
        f"rank {rank} is slow in {phase} since step {first}: {mine:.3f} s a step, its peers "
        f"{theirs:.3f} s{times}; the job lost {lost:.0%} of its throughput"
    )
    evidence = (
        Evidence(f"own {phase} time per step", mine, "seconds", f"peers {theirs:.3f} s"),
        Evidence("step time", step, "seconds", f"before {usual:.3f} s"),
        _wait_evidence(rank, judged.collective[since:]),
        Evidence("CPU use", float(facts.cpu_ratio[rank]), "ratio", _against(facts.cpu_ratio)),
        Evidence(
            "time on the run queue",
            float(facts.run_queue_ratio[rank]),
            "ratio",
            _against(facts.run_queue_ratio),
        ),
    )
    return Finding(
        FindingKind.STRAGGLER,
        rank,
        phase,
        _cause(phase, rank, mine - theirs, step, facts, limits),
        summary,
        first,
        float(judged.step_seconds[since:].sum()),
        mine - theirs,
        ratio,
        lost,
        evidence,
    )


def _wait_evidence(rank: int, waits: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Evidence:
    return Evidence(
        "wait in collectives per step",
        float(np.median(waits[:, rank])),
        "seconds",
        f"all ranks, median {float(np.median(waits)):.3f} s; who arrives last waits least",
    )


def _cause(
    phase: str, rank: int, excess: float, step: float, facts: RankFacts, limits: Thresholds
) -> Cause:
    queued = float(facts.run_queue_ratio[rank]) * step
    others = np.delete(facts.run_queue_ratio, rank)
    usual = float(np.nanmedian(others)) * step if np.isfinite(others).any() else 0.0
    if queued - usual >= limits.run_queue_share * excess:
        return Cause.CPU_CONTENTION
    return Cause.SLOW_DATA if phase == "data" else Cause.SLOW_COMPUTE


def _against(values: Vector) -> str:
    known = values[np.isfinite(values)]
    return f"all ranks, median {float(np.median(known)):.0%}" if len(known) else "unknown"
