"""Straggler: a rank whose own work takes longer than that of ranks with the same work.

Self times exclude every wait, so the slow rank is the one that works longer, while the ranks it
holds back show it as wait. Peers are the other ranks of its pipeline stage; a rank without peers is
held against its own past. A rank is slow persistently, in one phase and nearly every step, or
intermittently: in some steps only, but again and again and far more often than chance would have
it, given how often the other ranks have such steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import NamedTuple

import numpy as np

from stepwatch.collector.analysis.pipeline_stages import WORK
from stepwatch.collector.detect.chance import at_least
from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.peers import Floats, Peers, Vector, peer_seconds, peers_of
from stepwatch.collector.detect.steps import first_of_run, step_seconds, usable_steps
from stepwatch.collector.detect.thresholds import load
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.collector.state.step_window import Window
from stepwatch.signals.names import Cause, FindingKind

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
Flags = np.ndarray[tuple[int, int], np.dtype[np.bool_]]
Seconds = np.ndarray[tuple[int], np.dtype[np.floating]]
Ranks = np.ndarray[tuple[int], np.dtype[np.int64]]
Indices = np.ndarray[tuple[int], np.dtype[np.int64]]


class Thresholds(NamedTuple):
    """When a rank is slow; see `thresholds.toml`."""

    window_steps: int
    least_steps: int
    certain_steps: int
    certain_ratio: float
    certain_excess_ratio: float
    least_ratio: float
    least_excess_ratio: float
    warmup_steps: int
    run_queue_share: float
    intermittent_spans: tuple[int, ...]
    intermittent_usual_quantile: float
    intermittent_ratio: float
    intermittent_excess_ratio: float
    intermittent_episodes: int
    intermittent_gap: float
    intermittent_chance: float
    intermittent_usual_rate: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


class RankFacts(NamedTuple):
    """What the node says of each rank over the window, arrays (ranks,), NaN where unknown.

    `cpu_ratio` is CPU time per second, `run_queue_ratio` time spent runnable but not running.
    """

    cpu_ratio: Vector
    run_queue_ratio: Vector


class Trouble(NamedTuple):
    """A slow rank: its own and its peers' seconds per judged step, where it began, when it shows.

    `shows` are the judged steps (indices) that it is slow in; `of` how many were looked at for an
    intermittent trouble, 0 for a persistent one.
    """

    rank: int
    phase: str
    own: Seconds
    peers: Seconds
    since: int
    shows: Indices
    of: int = 0


class Judged:
    """The steps that are judged: numbers, step seconds, and each phase's own and peers' seconds."""

    def __init__(self, window: Window, usable: Mask, peers: Peers, past: Mapping[str, Vector]):
        self.steps = window.steps[usable]
        self.step_seconds = step_seconds(window)[usable]
        self.rows = np.flatnonzero(usable)
        self.window = window
        self.ranks = np.arange(len(window.stage))
        self._peers = peers
        self._past = past

    def collective(self, since: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """Collective wait (steps, ranks) from judged step `since` on."""
        return self.window.planes["collective"][self.rows[since:]]

    def own(self, phase: str, newest: int = 0) -> Floats:
        """Own seconds (steps, ranks) in the `newest` judged steps; 0 stands for all."""
        return self.window.planes[phase][self.rows[-newest:]]

    def peers(self, own: Floats, *phases: str) -> Floats:
        """What `own`, the seconds in all of these phases, is held against."""
        before: Vector = np.sum([self._before(phase) for phase in phases], axis=0)
        return peer_seconds(own, self._peers, before)

    def around(self, ranks: Ranks) -> Judged:
        """The same over the ranks that `ranks` are held against: those of their stages."""
        stage = self.window.stage
        if np.isin(ranks, self._peers.alone).any():
            return self  # they are held against all others
        chosen = np.flatnonzero(np.isin(stage, stage[ranks]))
        planes = {name: self.window.planes[name][:, chosen] for name in WORK}
        part = copy(self)
        part.ranks = self.ranks[chosen]
        part.window = self.window._replace(planes=planes, stage=stage[chosen])
        part._peers = peers_of(part.window.stage) or self._peers
        part._past = {name: seconds[chosen] for name, seconds in self._past.items()}
        return part

    def _before(self, phase: str) -> Vector:
        plane, alone = self.window.planes[phase], self._peers.alone
        past = self._past.get(phase, np.full(plane.shape[1], np.nan))
        if np.isnan(past[alone]).any():  # the older half of what is there must do
            older = np.median(plane[self.rows[: max(1, len(self.rows) // 2)]], axis=0)
            past = np.where(np.isnan(past), older, past)
        return past


def detect(
    window: Window,
    facts: RankFacts,
    limits: Thresholds,
    past: Mapping[str, Vector] | None = None,
) -> list[Finding]:
    """Findings on the newest steps of `window`, the worst first.

    `window` may hold more steps than are judged: they tell since when. `past` maps a phase to the
    seconds per step (ranks,) in the run's first steps, NaN where unknown; then the older half of
    the window stands in for it. Nothing is said with more stages than a pipeline has.
    """
    usable = usable_steps(window, limits.warmup_steps)
    peers = peers_of(window.stage)
    if usable.sum() < limits.certain_steps or peers is None:
        return []
    judged = Judged(window, usable, peers, past or {})
    troubles = [trouble for phase in WORK for trouble in _persistent(judged, phase, limits)]
    findings = _worst_phase([_finding(each, judged, facts, limits) for each in troubles])
    named = {finding.rank for finding in findings}
    findings += [
        _finding(trouble, judged, facts, limits) for trouble in intermittent(judged, named, limits)
    ]
    return sorted(findings, key=lambda finding: -finding.severity)


def _persistent(judged: Judged, phase: str, limits: Thresholds) -> list[Trouble]:
    newest = max(limits.window_steps, limits.certain_steps)
    own = judged.own(phase, newest)
    peers = judged.peers(own, phase)
    seconds = judged.step_seconds[-newest:]
    slow = _is_slow(own, peers, seconds, limits)
    named = _is_persistent(slow, limits) | _is_certain(own, peers, seconds, limits)
    if not named.any():
        return []
    ranks = np.flatnonzero(named)
    part = judged.around(ranks)
    own = part.own(phase)
    peers = part.peers(own, phase)
    slow = _is_slow(own, peers, judged.step_seconds, limits)
    found = []
    for rank, at in zip(ranks.tolist(), np.searchsorted(part.ranks, ranks).tolist(), strict=True):
        since = _since(slow[:, at], (own - peers)[:, at], limits)
        shows = np.arange(since, len(own))
        found.append(Trouble(rank, phase, own[:, at], peers[:, at], since, shows))
    return found


def intermittent(judged: Judged, named: set[int], limits: Thresholds) -> list[Trouble]:
    """Ranks that are far slower than their peers and than themselves, in some steps, repeatedly.

    All work counts, whatever the phase: a rank that loses its processor loses it anywhere. Ranks
    that are `named` already are left out.
    """
    longest = max(limits.intermittent_spans)
    if len(judged.rows) < min(limits.intermittent_spans):
        return []
    own = np.sum([judged.own(phase, longest) for phase in WORK], axis=0)
    far = own >= limits.intermittent_ratio * _usual(own, limits)
    if set(np.flatnonzero(far.sum(axis=0) >= limits.intermittent_episodes).tolist()) <= named:
        return []
    slow = _stands_out(judged, longest, limits)
    for span in limits.intermittent_spans:
        part = slow[-span:]
        ranks = np.flatnonzero(_too_often(part, limits)) if len(part) == span else _NOBODY
        ranks = np.setdiff1d(ranks, list(named))
        if len(ranks):
            return _repeated(judged, ranks, span, limits)
    return []


_NOBODY = np.zeros(0, dtype=np.int64)


def _usual(own: Floats, limits: Thresholds) -> Floats:
    """What each rank's own work usually takes, (1, ranks): a low quantile of its steps."""
    at = int(limits.intermittent_usual_quantile * (len(own) - 1))
    return np.partition(own, at, axis=0)[at : at + 1]


def _stands_out(judged: Judged, newest: int, limits: Thresholds) -> Flags:
    """Where (step, rank) works far longer than its peers, and than itself in its other steps."""
    own = np.sum([judged.own(phase, newest) for phase in WORK], axis=0)
    peers = judged.peers(own, *WORK)
    longest = judged.step_seconds[-newest:]
    excess = np.maximum(own - peers, 0.0).max(axis=1)
    seconds = np.maximum(np.median(longest), longest - excess)
    ratio, excess_ratio = limits.intermittent_ratio, limits.intermittent_excess_ratio
    return _exceeds(own, np.maximum(peers, _usual(own, limits)), seconds, ratio, excess_ratio)


def _too_often(slow: Flags, limits: Thresholds) -> Mask:
    """Ranks with more slow steps than chance gives at the other ranks' rate, spread and recent."""
    span, ranks = slow.shape
    counts = slow.sum(axis=0)
    began = slow.copy()
    began[1:] &= ~slow[:-1]
    since = np.argmax(slow[::-1], axis=0)
    gap = limits.intermittent_gap * span / np.maximum(counts, 1)
    named = (began.sum(axis=0) >= limits.intermittent_episodes) & (since <= gap) & (ranks > 1)
    for count in np.unique(counts[named]).tolist():
        others, cells = int(counts.sum()) - count, span * (ranks - 1)
        rate = max(limits.intermittent_usual_rate, (others + 1) / (cells + 1))
        if at_least(count, span, rate) * ranks > limits.intermittent_chance:
            named &= counts != count
    return np.asarray(named)


def _repeated(judged: Judged, ranks: Ranks, span: int, limits: Thresholds) -> list[Trouble]:
    """Each rank told by the phase that its slow steps lose most in."""
    part = judged.around(ranks)
    slow = _stands_out(part, 0, limits)
    owns = [part.own(phase) for phase in WORK]
    held = [part.peers(own, phase) for own, phase in zip(owns, WORK, strict=True)]
    found = []
    for rank, at in zip(ranks.tolist(), np.searchsorted(part.ranks, ranks).tolist(), strict=True):
        shows = np.flatnonzero(slow[:, at])
        inside = shows[shows >= len(slow) - span]
        lost = [
            float((own - peers)[inside, at].sum()) for own, peers in zip(owns, held, strict=True)
        ]
        worst = int(np.argmax(lost))
        most = limits.intermittent_gap * span / max(1, len(inside))
        gaps = np.flatnonzero(np.diff(shows) > most)
        since = int(shows[gaps[-1] + 1 if len(gaps) else 0])
        own, peers = owns[worst][:, at], held[worst][:, at]
        found.append(Trouble(rank, WORK[worst], own, peers, since, inside, span))
    return found


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
    rank, phase, since, shows = trouble.rank, trouble.phase, trouble.since, trouble.shows
    mine, theirs = float(np.median(trouble.own[shows])), float(np.median(trouble.peers[shows]))
    step = float(np.median(judged.step_seconds[shows]))
    usual = _usual_step(trouble, judged, step - (mine - theirs))
    lost = _lost(trouble, judged, usual)
    ratio = mine / theirs if theirs > 0 else float("inf")
    evidence = (
        Evidence(f"own {phase} time per step", mine, "seconds", f"peers {in_words(theirs)}"),
        Evidence("step time", step, "seconds", f"before {in_words(usual)}"),
        _wait_evidence(rank, judged.collective(since)),
        Evidence("CPU use", float(facts.cpu_ratio[rank]), "ratio", _against(facts.cpu_ratio)),
        Evidence(
            "time on the run queue",
            float(facts.run_queue_ratio[rank]),
            "ratio",
            _against(facts.run_queue_ratio),
        ),
    )
    return build_finding(
        kind=FindingKind.STRAGGLER,
        rank=rank,
        phase=phase,
        cause=_cause(phase, rank, mine - theirs, step, facts, limits),
        summary=_summary(trouble, int(judged.steps[since]), mine, theirs, lost),
        began_step=int(judged.steps[since]),
        began_ago_seconds=float(judged.step_seconds[since:].sum()),
        severity=mine - theirs,
        ratio=ratio,
        lost_ratio=lost,
        evidence=evidence,
    )


def _usual_step(trouble: Trouble, judged: Judged, otherwise: float) -> float:
    """Step seconds without the trouble: between its steps, or before it."""
    seconds, since = judged.step_seconds, trouble.since
    if trouble.of:
        return float(np.median(np.delete(seconds[-trouble.of :], trouble.shows - len(seconds))))
    return float(np.median(seconds[:since])) if since >= 3 else max(otherwise, 1e-9)


def _lost(trouble: Trouble, judged: Judged, usual: float) -> float:
    """Share of the throughput that the trouble costs."""
    if trouble.of:
        longer = np.maximum(judged.step_seconds[trouble.shows] - usual, 0.0)
        return float(longer.sum() / judged.step_seconds[-trouble.of :].sum())
    return max(0.0, 1.0 - usual / float(np.median(judged.step_seconds[trouble.shows])))


def _summary(trouble: Trouble, first: int, mine: float, theirs: float, lost: float) -> str:
    ratio = f" ({times(mine / theirs)})" if theirs > 0 else ""
    how = ""
    if trouble.of:
        how = f" intermittently, in {len(trouble.shows)} of the last {trouble.of} steps"
    return (
        f"rank {trouble.rank} is slow in {trouble.phase}{how} since step {first}: {in_words(mine)} "
        f"a step, its peers {in_words(theirs)}{ratio}; the job lost {lost:.0%} of its throughput"
    )


def _wait_evidence(rank: int, waits: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Evidence:
    return Evidence(
        "wait in collectives per step",
        float(np.median(waits[:, rank])),
        "seconds",
        f"all ranks, median {in_words(float(np.median(waits)))}; who arrives last waits least",
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
