"""Tokens per second, relative to one node; and MFU."""

from __future__ import annotations

import math

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.step_facts import tokens_per_second
from stepwatch.collector.state.trackers.run_facts import RunFacts

FLOPS, PEAK = "model.flops_per_token", "environment.device_peak_flops_per_second"
"""Names of run facts."""
_NO_TOKENS = "no rank reports tokens: pass tokens= to Watch.step"


def throughput(facts: JobFacts) -> Reading:
    """Measure the newest attempt's tokens per second, after its first step."""
    rate = tokens_per_second(facts.job.current)
    return unknown(_NO_TOKENS) if rate is None else Reading(rate)


def scaling_efficiency(facts: JobFacts) -> Reading:
    """Measure tokens per second and device, relative to its class's jobs on one node."""
    rate, world = tokens_per_second(facts.job.current), facts.job.current.world
    if rate is None or not world:
        return unknown(_NO_TOKENS)
    if math.isnan(facts.one_node_speed):
        return unknown("no job of its class on one node is known")
    return Reading(
        rate / world / facts.one_node_speed,
        detail=f"one node does {facts.one_node_speed:.0f} tokens/s a device",
    )


def peak_tokens_per_second(attempt: Attempt) -> float:
    """Return the tokens per second that its devices would reach at their peak FLOP/s.

    NaN if no rank describes the model or the peak, or if the actual rate is higher: then one of the
    two is wrong.
    """
    flops, peak = _described(attempt)
    if not (flops and peak and attempt.world):
        return math.nan
    most, rate = peak * attempt.world / flops, tokens_per_second(attempt)
    return math.nan if rate is not None and rate > most else most


def mfu(facts: JobFacts) -> Reading:
    """Measure model FLOPs per second over the devices' peak."""
    attempt = facts.job.current
    flops, peak = _described(attempt)
    if not flops:
        return unknown("no rank reports a token's FLOP: Watch.describe(model={flops_per_token})")
    if not peak:
        words = "environment={device_peak_flops_per_second}"
        return unknown(f"no rank reports its device's peak: Watch.describe({words})")
    rate = tokens_per_second(attempt)
    if rate is None or not attempt.world:
        return unknown(_NO_TOKENS)
    share = rate * flops / (peak * attempt.world)
    if share > 1.0:
        return unknown(f"{share:.3g} of the peak cannot be: one of the two is wrong")
    return Reading(share, detail=f"{flops:.3g} FLOPs a token, peak {peak:.3g} FLOP/s a device")


def _described(attempt: Attempt) -> tuple[float, float]:
    """Return FLOPs per token, and a device's peak FLOP/s; 0.0 without a description."""
    run_facts = attempt.tracker(RunFacts).facts()
    return _positive(run_facts.get(FLOPS)), _positive(run_facts.get(PEAK))


def _positive(text: str | None) -> float:
    """Return a text's positive number; 0.0 if there is none, or if it is not finite."""
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if 0 < number < math.inf else 0.0


SLIS = (
    RunSli(
        name="throughput",
        mission="M3",
        what="tokens per second of the whole job",
        formula="tokens / time after the first step of the newest attempt",
        unit="tokens/s",
        weight="time",
        expected="90 % of its class throughput, scaled from one node",
        trap="it is high in a run whose loss diverges",
        needs="tokens of steps",
        measure=throughput,
    ),
    RunSli(
        name="scaling-efficiency",
        mission="M3",
        what="tokens per second and device, over those of its class on one node",
        formula="(tokens/s / devices) / median of the same of one-node jobs of the class",
        unit="ratio",
        weight="time",
        expected="0.95 at 8 devices, 0.85 at 64, 0.75 at 512, 0.70 at 1,000 and more",
        trap="the slowest rank sets the pace; jobs of one class must be one model",
        needs="tokens of steps, a class, and a job of it on one node",
        measure=scaling_efficiency,
    ),
    RunSli(
        name="mfu",
        mission="",
        what="model FLOPs utilisation",
        formula="FLOPs per token x tokens/s / (devices x peak FLOP/s)",
        unit="ratio",
        weight="time",
        expected="0.35 to 0.5 of dense models",
        trap="recomputation is not model FLOPs",
        needs="FLOPs per token and the peak of the device, from Watch.describe; tokens of steps",
        measure=mfu,
    ),
)
