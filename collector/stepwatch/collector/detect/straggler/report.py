"""The finding on a slow rank: its cost, cause and evidence, and the words."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import (
    LOST_SHARE,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank, seconds_without
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.quantities import UNKNOWN, times
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.step_clocks import DEVICE
from stepwatch.signals.arrays import Integers, Matrix32, Vector
from stepwatch.signals.names import Cause, FindingKind


class RankFacts(NamedTuple):
    """The node's reports on each rank over the window, arrays (ranks,), NaN where unknown.

    `cpu_ratio` is CPU time per second, `run_queue_ratio` the time spent runnable but not running.
    """

    cpu_ratio: Vector
    run_queue_ratio: Vector

    def for_ranks(self, ranks: Integers) -> RankFacts:
        """Return the facts for some ranks."""
        return RankFacts(self.cpu_ratio[ranks], self.run_queue_ratio[ranks])


class Excess(NamedTuple):
    """A rank's excess seconds per step over its peers.

    `idle` is the part in which its device waited for its host, NaN if no device timed it.
    """

    seconds: float
    idle: float = math.nan


def cause_of(
    phase: str, rank: int, excess: Excess, step: float, facts: RankFacts, limits: Thresholds
) -> Cause:
    """Return CPU contention if the CPU wait explains the excess, else the phase's usual cause.

    If the device timed the phase, its work is slow compute whatever the host does, and its wait for
    the host is the host's: launch-bound. `step` is in seconds.
    """
    on_device = phase != "data" and not math.isnan(excess.idle)
    if on_device and excess.idle < limits.cause_share * excess.seconds:
        return Cause.SLOW_COMPUTE
    if _waits_for_a_cpu(rank, excess.seconds, step, facts, limits):
        return Cause.CPU_CONTENTION
    if on_device:
        return Cause.LAUNCH_BOUND
    return Cause.SLOW_DATA if phase == "data" else Cause.SLOW_COMPUTE


def _waits_for_a_cpu(
    rank: int, excess: float, step: float, facts: RankFacts, limits: Thresholds
) -> bool:
    if not excess > limits.least_lost_ratio * step:
        return False  # any wait explains an excess of nothing
    queue, usual = float(facts.run_queue_ratio[rank]), _usual(facts.run_queue_ratio, rank)
    more = (queue - (0.0 if math.isnan(usual) else usual)) * step
    computes = (float(facts.cpu_ratio[rank]) - _usual(facts.cpu_ratio, rank)) * step
    if computes > more:  # a rank with more work queues for longer, too
        return False
    share = limits.cause_share
    if queue >= limits.run_queue_pressure:
        share = limits.pressed_share
    return more >= share * excess


def _usual(values: Vector, rank: int) -> float:
    """Return the median over the other ranks, NaN if none is known."""
    peers = np.delete(values, rank)
    return float(np.nanmedian(peers)) if np.isfinite(peers).any() else math.nan


class DeviceTimes(NamedTuple):
    """Medians over the steps that show a slow rank, in seconds per step, NaN where unknown.

    `idle` is the part of its phase in which its device had nothing enqueued ahead, and `peers_idle`
    that of its peers. `lead` is its host's lead at the end of a step, and `usual_lead` the median
    rank's.
    """

    idle: float
    peers_idle: float
    lead: float
    usual_lead: float


def device_times(slow: SlowRank, steps: EvaluatedSteps) -> DeviceTimes | None:
    """Return the device times for `slow`; None if the hosts' clock timed the steps."""
    if steps.window.clock != DEVICE:
        return None
    part = steps.around(np.array([slow.rank]))
    column, name = int(np.searchsorted(part.ranks, slow.rank)), f"{slow.phase}_idle"
    idle, lead = part.self_time(name), part.self_time("host_lead")[slow.shows]
    peers = part.peers(idle, name)
    return DeviceTimes(
        idle=float(np.median(idle[slow.shows, column])),
        peers_idle=float(np.median(peers[slow.shows, column])),
        lead=float(np.median(lead[:, column])),
        usual_lead=float(np.median(lead)),
    )


def device_evidence(
    phase: str, rank_seconds: float, peer_seconds: float, times: DeviceTimes
) -> tuple[Evidence, ...]:
    """Return evidence rows for the device's work, its wait and its host's lead.

    `rank_seconds` and `peer_seconds` are the seconds per step in `phase` of the rank and its peers.
    """
    peer_own = max(peer_seconds - times.peers_idle, 0.0)
    return (
        Evidence(
            f"device self time in {phase} per step",
            max(rank_seconds - times.idle, 0.0),
            "seconds",
            f"peers {in_words(peer_own)}",
            reference=peer_own,
        ),
        Evidence(
            f"device waits for its host in {phase} per step",
            times.idle,
            "seconds",
            f"peers {in_words(times.peers_idle)}; an upper bound",
            reference=times.peers_idle,
        ),
        Evidence(
            "host is ahead of its device by",
            times.lead,
            "seconds",
            f"median rank {in_words(times.usual_lead)}; at the end of a step",
            reference=times.usual_lead,
        ),
    )


def finding_of(
    slow: SlowRank, steps: EvaluatedSteps, facts: RankFacts, limits: Thresholds
) -> Finding:
    """Return the finding on `slow`, with the `facts` for all ranks as evidence."""
    rank, phase, since, shows = slow.rank, slow.phase, slow.since, slow.shows
    number = int(steps.numbers[rank])
    first = int(steps.steps[since])
    if slow.cost is not None and not since:  # it may have begun before these steps
        first = min(first, slow.cost.since)
    rank_seconds, peer_seconds = (
        float(np.median(slow.self_seconds[shows])),
        float(np.median(slow.peers[shows])),
    )
    step = float(np.median(steps.step_seconds[shows]))
    usual = _usual_step(slow, steps)
    lost = _lost(slow, steps, usual)
    ratio = rank_seconds / peer_seconds if peer_seconds > 0 else float("inf")
    device, peers = device_times(slow, steps), _peers(slow, steps)
    excess = Excess(rank_seconds - peer_seconds)
    if device is not None:
        excess = Excess(rank_seconds - peer_seconds, device.idle - device.peers_idle)
    cause = cause_of(phase=phase, rank=rank, excess=excess, step=step, facts=facts, limits=limits)
    return build_finding(
        kind=FindingKind.STRAGGLER,
        rank=number,
        phase=phase,
        cause=cause,
        summary=_summary(
            slow._replace(rank=number), first, (rank_seconds, peer_seconds), lost, peers
        )
        + (_waits_words(device) if cause is Cause.LAUNCH_BOUND else ""),
        began_step=first,
        began_ago_seconds=float(steps.step_seconds[since:].sum()),
        severity=rank_seconds - peer_seconds,
        ratio=ratio,
        lost_ratio=lost,
        lost_now_ratio=math.nan if slow.cost is None else slow.cost.now,
        evidence=_evidence(slow, steps, (rank_seconds, peer_seconds), (step, usual), facts)
        + (
            device_evidence(phase, rank_seconds, peer_seconds, device) if device is not None else ()
        ),
    )


def _usual_step(slow: SlowRank, steps: EvaluatedSteps) -> float:
    """Return the step seconds without the slow rank.

    The source is steps between or before its slow steps in which no other rank is as slow. Without
    any, it is its slow steps less the rank's excess work.
    """
    seconds, without = steps.step_seconds, np.zeros(len(steps.step_seconds), dtype=np.bool_)
    if slow.step_count:
        without[-slow.step_count :] = True
        without[slow.shows] = False
    else:
        without[: slow.since] = True
    level = float(np.median((slow.self_seconds - slow.peers)[slow.shows])) / 2
    self_seconds = steps.self_time(slow.phase)
    if self_seconds.shape[1] > 1:
        without &= (self_seconds - steps.peers(self_seconds, slow.phase)).max(axis=1) < level
    least = 1 if slow.step_count else _FEWEST_BEFORE
    usual = seconds[without]
    if len(usual) < least:
        usual = seconds_without(slow.rank, steps)[slow.shows]
    return max(float(np.median(usual)), 1e-9)


_FEWEST_BEFORE = 3
"""Minimum number of steps for a known usual one."""


def _lost(slow: SlowRank, steps: EvaluatedSteps, usual: float) -> float:
    """Return the throughput share that the slow rank costs.

    Time buckets include steps before it began. If the steps themselves name and date the rank, they
    give the share, within the interval from accumulated evidence.
    """
    cost = slow.cost
    if cost is not None and not (slow.by_steps and slow.since):
        return cost.lost.share
    if slow.step_count:
        longer = np.maximum(steps.step_seconds[slow.shows] - usual, 0.0)
        lost = float(longer.sum() / steps.step_seconds[-slow.step_count :].sum())
    else:
        lost = max(0.0, 1.0 - usual / float(np.median(steps.step_seconds[slow.shows])))
    return lost if cost is None else min(max(lost, cost.lost.low), cost.lost.high)


def _peers(slow: SlowRank, steps: EvaluatedSteps) -> str:
    """Return the reference's name: the other ranks in its stage, or itself without any."""
    return "baseline" if slow.rank in steps.stages.single_ranks else "peers"


def _summary(slow: SlowRank, first: int, work: tuple[float, float], lost: float, peers: str) -> str:
    rank_seconds, peer_seconds = work
    ratio = f" ({times(rank_seconds / peer_seconds)})" if peer_seconds > 0 else ""
    how = ""
    if slow.step_count:
        how = f" intermittently, in {len(slow.shows)} of the last {slow.step_count} steps"
    return (
        f"rank {slow.rank} is slow in {slow.phase}{how} since step {first}: "
        f"{in_words(rank_seconds)} a step, its {peers} {in_words(peer_seconds)}{ratio}; "
        f"the job lost {lost:.0%} of its throughput{_interval_words(slow)}{_until_words(slow)}"
    )


def _until_words(slow: SlowRank) -> str:
    if slow.cost is None or slow.cost.until < 0 or slow.step_count:
        return ""  # occasional slowness continues between two occurrences
    return f"; not any more since step {slow.cost.until}"


def _interval_words(slow: SlowRank) -> str:
    if slow.cost is None:
        return ""
    lost = slow.cost.lost
    return f" ({lost.low:.0%} to {min(lost.high, 1.0):.0%})"


def _evidence(
    slow: SlowRank,
    steps: EvaluatedSteps,
    work: tuple[float, float],
    lengths: tuple[float, float],
    facts: RankFacts,
) -> tuple[Evidence, ...]:
    """Return rows on self time (rank, peers), step time (now, usual), wait and CPU."""
    rank, queue = slow.rank, facts.run_queue_ratio
    name, usual = f"self time in {slow.phase} per step", f"baseline {in_words(lengths[1])}"
    against = f"{_peers(slow, steps)} {in_words(work[1])}"
    waits = steps.collective(slow.since)
    return (
        Evidence(name, work[0], "seconds", against, reference=work[1]),
        Evidence("step time", lengths[0], "seconds", usual, reference=lengths[1]),
        *_cost_evidence(slow),
        *([_wait_evidence(rank, waits)] if waits.shape[1] > 1 else ()),
        _compared_with("CPU use", facts.cpu_ratio, rank),
        _compared_with("time on the run queue", queue, rank),
    )


ROUGHLY_LOST = f"{LOST_SHARE}, from few stretches"
"""The label while the interval is wider than the share: no better than a few steps' estimate."""
_POWERS_FROM = 3.0
"""Smaller odds are printed as a number: 10^2 may be 32 or 316."""


def _cost_evidence(slow: SlowRank) -> tuple[Evidence, ...]:
    """Return rows on the accumulated evidence: the lost time share, and its certainty."""
    if slow.cost is None:
        return ()
    lost, now, sure = slow.cost.lost, slow.cost.now, slow.cost.log_odds / math.log(10)
    odds = f"10^{sure:.0f} to 1" if sure >= _POWERS_FROM else f"{10**sure:.0f} to 1"
    return (
        Evidence(
            LOST_SHARE if lost.high - lost.low <= lost.share else ROUGHLY_LOST,
            lost.share,
            "ratio",
            f"90 % interval {lost.low:.1%} to {min(lost.high, 1.0):.1%}; lately {now:.1%}",
        ),
        Evidence("odds that it is slow", slow.cost.log_odds, "log", "chance, no rank slow", odds),
        text_evidence("how ranks are compared", slow.cost.counts, "work of a step"),
    )


def _waits_words(device: DeviceTimes | None) -> str:
    idle = UNKNOWN if device is None else in_words(device.idle)
    return f"; its device waits for its host, up to {idle} a step"


def _wait_evidence(rank: int, waits: Matrix32) -> Evidence:
    return Evidence(
        "wait in collectives per step",
        float(np.median(waits[:, rank])),
        "seconds",
        f"median rank {in_words(float(np.median(waits)))}; the last to arrive waits least",
        reference=float(np.median(waits)),
    )


def _compared_with(name: str, values: Vector, rank: int) -> Evidence:
    """Return a row on a rank's ratio among those of all ranks."""
    value, finite = float(values[rank]), values[np.isfinite(values)]
    if len(values) == 1 or not len(finite):
        return Evidence(name, value, "ratio", "the only rank" if len(values) == 1 else "unknown")
    median = float(np.median(finite))
    return Evidence(name, value, "ratio", f"median rank {median:.0%}", reference=median)
