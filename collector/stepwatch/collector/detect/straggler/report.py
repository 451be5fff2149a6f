"""From a slow rank to its finding: what it costs, the evidence, and the words."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.detect.straggler.cause import RankFacts, cause_of
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.quantities import times
from stepwatch.signals.arrays import Matrix32, Vector
from stepwatch.signals.names import FindingKind


def finding_of(
    slow: SlowRank, steps: EvaluatedSteps, facts: RankFacts, limits: Thresholds
) -> Finding:
    """The finding on `slow`, with the `facts` of all ranks as evidence."""
    rank, phase, since, shows = slow.rank, slow.phase, slow.since, slow.shows
    mine, theirs = float(np.median(slow.own[shows])), float(np.median(slow.peers[shows]))
    step = float(np.median(steps.step_seconds[shows]))
    usual = _usual_step(slow, steps, step - (mine - theirs))
    lost = _lost(slow, steps, usual)
    ratio = mine / theirs if theirs > 0 else float("inf")
    evidence = (
        Evidence(f"self time in {phase} per step", mine, "seconds", f"peers {in_words(theirs)}"),
        Evidence("step time", step, "seconds", f"baseline {in_words(usual)}"),
        _wait_evidence(rank, steps.collective(since)),
        Evidence("CPU use", float(facts.cpu_ratio[rank]), "ratio", _compared_with(facts.cpu_ratio)),
        Evidence(
            "time on the run queue",
            float(facts.run_queue_ratio[rank]),
            "ratio",
            _compared_with(facts.run_queue_ratio),
        ),
    )
    return build_finding(
        kind=FindingKind.STRAGGLER,
        rank=rank,
        phase=phase,
        cause=cause_of(
            phase=phase,
            rank=rank,
            excess=mine - theirs,
            step=step,
            facts=facts,
            limits=limits,
        ),
        summary=_summary(slow, int(steps.steps[since]), mine, theirs, lost),
        began_step=int(steps.steps[since]),
        began_ago_seconds=float(steps.step_seconds[since:].sum()),
        severity=mine - theirs,
        ratio=ratio,
        lost_ratio=lost,
        evidence=evidence,
    )


def _usual_step(slow: SlowRank, steps: EvaluatedSteps, otherwise: float) -> float:
    """Step seconds without the slow rank: between its slow steps, or before them."""
    seconds, since = steps.step_seconds, slow.since
    if slow.of:
        return float(np.median(np.delete(seconds[-slow.of :], slow.shows - len(seconds))))
    return float(np.median(seconds[:since])) if since >= 3 else max(otherwise, 1e-9)


def _lost(slow: SlowRank, steps: EvaluatedSteps, usual: float) -> float:
    """Share of the throughput that the slow rank costs."""
    if slow.of:
        longer = np.maximum(steps.step_seconds[slow.shows] - usual, 0.0)
        return float(longer.sum() / steps.step_seconds[-slow.of :].sum())
    return max(0.0, 1.0 - usual / float(np.median(steps.step_seconds[slow.shows])))


def _summary(slow: SlowRank, first: int, mine: float, theirs: float, lost: float) -> str:
    ratio = f" ({times(mine / theirs)})" if theirs > 0 else ""
    how = ""
    if slow.of:
        how = f" intermittently, in {len(slow.shows)} of the last {slow.of} steps"
    return (
        f"rank {slow.rank} is slow in {slow.phase}{how} since step {first}: {in_words(mine)} "
        f"a step, its peers {in_words(theirs)}{ratio}; the job lost {lost:.0%} of its throughput"
    )


def _wait_evidence(rank: int, waits: Matrix32) -> Evidence:
    return Evidence(
        "wait in collectives per step",
        float(np.median(waits[:, rank])),
        "seconds",
        f"median rank {in_words(float(np.median(waits)))}; the last to arrive waits least",
    )


def _compared_with(values: Vector) -> str:
    known = values[np.isfinite(values)]
    return f"median rank {float(np.median(known)):.0%}" if len(known) else "unknown"
