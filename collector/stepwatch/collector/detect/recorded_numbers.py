"""Evidence from recorded numbers: their values in a step, and in the steps before.

Rates, scales and data positions stay the same over many steps: their evidence is the step in which
they changed. Other numbers are compared with their median before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Evidence, text_evidence
from stepwatch.collector.state.trackers.metrics.metrics import Metrics
from stepwatch.collector.state.trackers.run_facts import RunFacts
from stepwatch.collector.statistics.medians import median
from stepwatch.signals.arrays import Mask, Vector
from stepwatch.signals.phrases import ranks_text

BEFORE_STEPS = 32
"""Steps before the compared one whose median is its reference."""
RANKS_NAMED = 4
RATE = "lr"
_HELD = {"loss_scale": "loss scale", "epoch": "epoch", "shard": "data shard"}
"""Words for the metrics that are kept by rank."""


def recorded_numbers(context: DetectionContext, step: int) -> list[Evidence]:
    """Return evidence on a step: rates, norm, loss scale, tokens, data position, seed, resume.

    Numbers that the trainer does not record are left out.
    """
    return [
        *_learning_rate(context, step),
        *_gradient_norm(context, step),
        *_held_by_rank(context, step),
        *_sample(context, step),
        *_tokens(context, step),
        *_seed(context),
        *_resume(context, step),
    ]


def _learning_rate(context: DetectionContext, step: int) -> Iterator[Evidence]:
    """Yield the rate of a step with its largest change lately, or its newest change.

    Rates 0.1, 0.1, 0.5, 0.4 at steps 0, 64, 70, 71 and a finding from step 72 on: 0.4, since step
    70 0.5, before it 0.1.
    """
    index = metric_index(context, RATE)
    if index is None:
        return
    steps, rates = context.attempt.tracker(Metrics).newest(index, step)
    known = np.isfinite(rates)
    steps, rates = steps[known], rates[known]
    if not len(rates):
        return
    changed = np.flatnonzero(np.diff(rates))
    against = "unchanged"
    if len(changed):
        lately = changed[steps[changed + 1] > step - BEFORE_STEPS]
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = np.abs(np.log(rates[lately + 1] / rates[lately]))
        since = int(lately[np.argmax(sizes)] if len(lately) else changed[-1])
        new = "" if rates[since + 1] == rates[-1] else f" {rates[since + 1]:.4g}"
        against = f"since step {steps[since + 1]}{new}, before it {rates[since]:.4g}"
    yield Evidence("learning rate", float(rates[-1]), "", against)


def _gradient_norm(context: DetectionContext, step: int) -> Iterator[Evidence]:
    index = metric_index(context, "grad_norm")
    if index is None:
        return
    curve = context.attempt.tracker(Metrics).curves(index)["steps"].until(step + 1)
    is_recent = len(curve.step) > 1 and step - curve.step[-1] < BEFORE_STEPS
    if is_recent and not math.isnan(curve.mean[-1]):
        before = median(curve.mean[-BEFORE_STEPS - 1 : -1])
        against = f"median of the steps before {before:.4g}"
        if curve.step[-1] < step:
            against = f"in step {curve.step[-1]}, the newest that is known; {against}"
        yield Evidence("gradient norm", float(curve.mean[-1]), "", against, reference=before)


def _held_by_rank(context: DetectionContext, step: int) -> Iterator[Evidence]:
    """Yield values that were kept by rank: one row for equal ranks, else those that changed."""
    rank_values = context.attempt.tracker(Metrics).rank_values
    for name, words in _HELD.items():
        value, since, previous = rank_values.held(name, step)
        known = np.isfinite(value)
        if not known.any():
            continue
        first = int(np.flatnonzero(known)[0])
        if np.ptp(value[known]) == 0 and np.ptp(since[known]) == 0:
            yield Evidence(words, float(value[first]), "", _since(since[first], previous[first]))
            continue
        recent = known & (since > step - BEFORE_STEPS) & np.isfinite(previous)
        for rank in np.flatnonzero(recent)[:RANKS_NAMED].tolist():
            others = _span(value[known & (np.arange(len(value)) != rank)])
            against = f"{_since(since[rank], previous[rank])}; the other ranks {others}"
            yield Evidence(f"{words} of rank {rank}", float(value[rank]), "", against)
        if not recent.any():
            unit = f"{ranks_text(np.flatnonzero(known))}, unchanged for {BEFORE_STEPS} steps"
            yield text_evidence(words, _span(value[known]), unit)


def _since(step: int, previous: float) -> str:
    return "unchanged" if np.isnan(previous) else f"since step {step}, before it {previous:.6g}"


def _span(values: Vector) -> str:
    """Return the range of values: `3`, `0 to 7`."""
    if not len(values):
        return "unknown"
    least, greatest = float(values.min()), float(values.max())
    return f"{least:.9g}" if least == greatest else f"{least:.9g} to {greatest:.9g}"


def _sample(context: DetectionContext, step: int) -> Iterator[Evidence]:
    index = metric_index(context, "sample")
    if index is None:
        return
    curve = context.attempt.tracker(Metrics).curves(index)["steps"].until(step + 1)
    if len(curve.step) and curve.step[-1] == step and curve.finite[-1]:
        ends = np.array([curve.least[-1], curve.greatest[-1]])
        yield text_evidence("data sample", _span(ends), f"over all ranks, in step {step}")


def _tokens(context: DetectionContext, step: int) -> Iterator[Evidence]:
    """Yield the batch's tokens, and the ranks whose part is not as long as before."""
    tokens, before = around(context, "tokens", step)
    known = np.isfinite(tokens) & np.isfinite(before)
    if not known.any() or not tokens[known].any():
        return
    usual = float(before[known].sum())
    against = f"median of the steps before {usual:,.0f}"
    batch = float(tokens[known].sum())
    yield Evidence("tokens of the batch", batch, "tokens", against, reference=usual)
    other = np.flatnonzero(known & (tokens != before))
    if len(other) <= RANKS_NAMED < np.count_nonzero(known) or len(other) == 1:
        for rank in other.tolist():
            against = f"median of the steps before {before[rank]:,.0f}"
            value, usual = float(tokens[rank]), float(before[rank])
            yield Evidence(f"tokens of rank {rank}", value, "tokens", against, reference=usual)


def _seed(context: DetectionContext) -> Iterator[Evidence]:
    for name, value in context.attempt.tracker(RunFacts).facts().items():
        if name.rpartition(".")[2] == "seed":
            yield text_evidence("seed", value, name)
            return


def _resume(context: DetectionContext, step: int) -> Iterator[Evidence]:
    """Yield the resume that is at most `BEFORE_STEPS` back: it may not have restored everything."""
    resumed = context.attempt.lifecycle.resumed_from
    if resumed is not None and 0 <= step - resumed < BEFORE_STEPS:
        path = context.attempt.lifecycle.resumed_path
        yield text_evidence("resume", f"from step {resumed}{path and ', '}{path}", "shortly before")


def metric_index(context: DetectionContext, name: str) -> int | None:
    """Return the index of a metric of steps among the attempt's metrics; None without it."""
    return context.attempt.tracker(Metrics).names.index(name)


def around(context: DetectionContext, plane: str, step: int) -> tuple[Vector, Vector]:
    """Return each rank's value in a step, and its median before (ranks,); NaN if unknown."""
    window = context.window
    place = int(np.searchsorted(window.steps, step))
    unknown = np.full(len(window.stage), np.nan)
    if place == len(window.steps) or window.steps[place] != step or not place:
        return unknown, unknown
    rows = window.planes[plane]
    before = rows[max(0, place - BEFORE_STEPS) : place]
    has_any: Mask = np.asarray(np.isfinite(before).any(axis=0))
    medians = unknown.copy()
    medians[has_any] = np.nanmedian(before[:, has_any], axis=0)
    return rows[place].astype(np.float64), medians
