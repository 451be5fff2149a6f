"""Non-finite: the rank that first held NaN or infinity, before a reduction gave it to all.

Only the first step counts: from the next step every rank holds it. Gradients of a scaled loss
overflow occasionally, and the scaler skips these steps: only a lasting overflow is a finding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwatch.collector.detect import loss_anomaly
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.detect.loss_anomaly.reasons import learning_rate_reason
from stepwatch.collector.detect.recorded_numbers import recorded_numbers
from stepwatch.collector.detect.registry import Detector, Needs, When
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.trackers.numerics import Numerics
from stepwatch.signals.arrays import Rows
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import numbers_text
from stepwatch.signals.records import LOSS_SCALED, SCALER_STEPS, NumericsSource

RANKS_NAMED = 8
LOOKED_BACK_STEPS = 4096
_SOURCES = {
    NumericsSource.COLLECTIVE_INPUT: (
        "what it put into a reduction",
        "what they put into a reduction",
    ),
    NumericsSource.GRAD_NORM_SHARE: (
        "its share of the gradient norm",
        "their shares of the gradient norm",
    ),
    NumericsSource.LOSS: ("its loss", "their losses"),
    NumericsSource.GRAD_NORM: ("its gradient norm", "their gradient norm"),
}
"""Words for one rank and for several; sources that separate ranks best come first."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for when the first step is known."""

    settle_steps: int = 2
    """Steps: how long to wait for late records before the first rank is named. Agents send at
    intervals, and a rank whose records come slightly later must not be overlooked.
    """
    recovered_steps: int = 16
    """Steps: the run has recovered after this many in a row with a finite loss on every rank. Once
    parameters hold NaN no loss is finite again, while a loss scaler's overflow only skips a step.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""


def find(context: DetectionContext) -> list[Finding]:
    """Return the rank that first held NaN or infinity; found until the attempt ends or recovers."""
    attempt = context.attempt
    numerics, limits = attempt.tracker(Numerics), context.thresholds(LIMITS)
    if len(numerics.bad) or len(numerics.scaled):
        numerics.get_over(_got_over(attempt, limits.recovered_steps))
    rows = np.concatenate([numerics.bad, numerics.scaled])
    if not len(rows):
        return []
    step_history = attempt.steps.history
    newest = step_history.first + len(step_history) - 1
    over = bool(attempt.lifecycle.ended) or bool(attempt.outcome.gone)
    complete = attempt.attendance.complete_until
    findings = detect(rows, complete, newest, limits, over=over)
    return [context.dated(_with_numbers(context, finding)) for finding in findings]


def _with_numbers(context: DetectionContext, finding: Finding) -> Finding:
    """Return the finding with the recorded numbers, and with a rise of the learning rate."""
    numbers = recorded_numbers(context, finding.began_step)
    reason = learning_rate_reason(context, finding, context.thresholds(loss_anomaly.LIMITS))
    summary = f"{finding.summary}; {reason}" if reason else finding.summary
    return finding._replace(summary=summary, evidence=(*finding.evidence, *numbers))


def _got_over(attempt: Attempt, needed: int) -> int:
    """Return the newest step that was followed by `needed` finite steps on every rank.

    A trainer that skips the step continues unharmed: parameters that hold NaN do not give a finite
    loss again. The result is -1 if the loss is not recorded.
    """
    step_history = attempt.steps.history
    newest = step_history.steps[-LOOKED_BACK_STEPS:]
    expected = np.maximum(attempt.attendance.expected_ranks(newest), 1)
    healthy = step_history.rows["loss_ranks"][-LOOKED_BACK_STEPS:] >= expected
    numerics = attempt.tracker(Numerics)
    bad = np.concatenate([numerics.bad["step"], numerics.scaled["step"]])
    healthy &= ~np.isin(newest, bad)
    if len(healthy) < needed:
        return -1
    runs = np.lib.stride_tricks.sliding_window_view(healthy, needed).all(axis=1)
    begins = step_history.steps[-len(healthy) :][np.flatnonzero(runs)]
    return int(begins[-1]) - 1 if len(begins) else -1


def detect(
    rows: Rows, complete_step: int, newest_step: int, limits: Thresholds, *, over: bool = False
) -> list[Finding]:
    """Return one finding about the first step in which a rank held non-finite values.

    `rows` are NUMERICS rows from any step, some marked `LOSS_SCALED`. `complete_step` is the newest
    step that every rank reported, `newest_step` any rank's newest step. There is no finding before
    the first step is complete, unless the job continued for a while or is `over`.
    """
    rows = _unhealthy(rows[rows["nonfinite"] > 0])
    if not len(rows):
        return []
    first = int(rows["step"].min())
    if not over and complete_step < first and newest_step < first + limits.settle_steps:
        return []
    rows = rows[rows["step"] == first]
    by_source = {
        source: rows[rows["source"] == source]
        for source in _SOURCES
        if (rows["source"] == source).any()
    }
    if not by_source:
        return []
    source, telling = min(by_source.items(), key=lambda item: len(np.unique(item[1]["rank"])))
    ranks = np.unique(telling["rank"]).tolist()
    losses = by_source.get(NumericsSource.LOSS)
    from_loss = losses is not None and bool(np.isin(ranks, losses["rank"]).any())
    return [
        _finding(
            step=first,
            source=source,
            ranks=ranks,
            name=_name(telling),
            from_loss=from_loss,
        )
    ]


def _unhealthy(rows: Rows) -> Rows:
    """Return rows without `LOSS_SCALED`, and scaled rows from runs too long for a scaler."""
    scaled = rows["source"] & LOSS_SCALED > 0
    steps = np.unique(rows["step"][scaled])
    run = np.cumsum(np.diff(steps, prepend=steps[:1]) > 1)
    lasting = steps[np.bincount(run)[run] > SCALER_STEPS] if len(steps) else steps
    rows = rows[~scaled | np.isin(rows["step"], lasting)]
    rows["source"] &= ~np.uint16(LOSS_SCALED)
    return rows


def _finding(
    step: int, source: NumericsSource, ranks: list[int], name: str, from_loss: bool
) -> Finding:
    place = f" ({name})" if name else ""
    if len(ranks) == 1:
        ranks_label = f"rank {ranks[0]} was the first to hold"
    else:
        ranks_label = f"{len(ranks)} ranks at once ({numbers_text(ranks)}) were the first to hold"
    where = _SOURCES[source][len(ranks) > 1]
    summary = (
        f"{ranks_label} a value that is not finite since step {step}, in {where}{place}. What the "
        "others hold since then came from there"
    )
    evidence = tuple(
        Evidence(f"first step of rank {rank} with a value that is not finite", step, "step",
                 "none in earlier steps")
        for rank in ranks[:RANKS_NAMED]
    )  # fmt: skip
    return build_finding(
        kind=FindingKind.NON_FINITE,
        rank=ranks[0] if len(ranks) == 1 else NO_RANK,
        phase="forward" if from_loss else "backward",
        cause=Cause.NON_FINITE_LOSS if from_loss else Cause.NON_FINITE_GRADIENT,
        summary=summary,
        began_step=step,
        evidence=evidence,
    )


def _name(rows: Rows) -> str:
    names = [bytes(text).decode("utf-8", "replace") for text in rows["text"] if text]
    return names[0] if names else ""


DETECTORS = (
    Detector(
        kinds=frozenset({FindingKind.NON_FINITE}),
        when=When.ALWAYS,
        order=10,
        find=find,
        needs=Needs.SOME_RANKS,
    ),
)
