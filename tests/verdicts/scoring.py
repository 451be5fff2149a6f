"""Compares the verdicts on a run with its injected fault. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Truth(NamedTuple):
    """The right verdict on a fault.

    Args:
        fault: its name; each case of it counts in one row of the table.
        kinds: kinds of incident that name it.
        ranks: ranks that may be named; empty if every rank, or none, is right.
        phases: phases that may be named; empty if the phase has no meaning.
        causes: causes that may be named.
    """

    fault: str
    kinds: frozenset[str]
    ranks: frozenset[int]
    phases: frozenset[str]
    causes: frozenset[str]


class Verdict(NamedTuple):
    """An incident that is not a symptom of another; `opened_at` in Unix seconds."""

    kind: str
    rank: int
    phase: str
    cause: str
    opened_at: float
    summary: str = ""


class Outcome(NamedTuple):
    """One run: the truth (None: healthy), when the fault triggered, and the verdicts on it."""

    truth: Truth | None
    struck_at: float
    verdicts: tuple[Verdict, ...]


class Score(NamedTuple):
    """How right stepwatch was about one run; None if an aspect does not count."""

    true: int
    false: int
    found: bool | None
    rank: bool | None
    phase: bool | None
    cause: bool | None
    seconds: float


def score(outcome: Outcome) -> Score:
    """Score one run.

    The first incident of a right kind after the fault triggered is true. Every other incident is
    false, also a second one of the right kind.
    """
    truth, verdicts = outcome.truth, sorted(outcome.verdicts, key=lambda item: item.opened_at)
    if truth is None:
        return Score(0, len(verdicts), None, None, None, None, math.nan)
    right = [item for item in verdicts if _names(item, truth, outcome.struck_at)]
    if not right:
        return Score(0, len(verdicts), False, None, None, None, math.nan)
    best = right[0]
    return Score(
        1,
        len(verdicts) - 1,
        True,
        best.rank in truth.ranks if truth.ranks else None,
        best.phase in truth.phases if truth.phases else None,
        best.cause in truth.causes,
        best.opened_at - outcome.struck_at,
    )


def _names(verdict: Verdict, truth: Truth, struck_at: float) -> bool:
    return verdict.kind in truth.kinds and verdict.opened_at >= struck_at


class Totals(NamedTuple):
    """Scores of several runs together; ratios are NaN if nothing counts, times in seconds."""

    runs: int
    precision: float
    recall: float
    rank: float
    phase: float
    cause: float
    p50: float
    p90: float
    false: int


def totals(scores: Sequence[Score]) -> Totals:
    """Return the totals of the scores."""
    true, false = (
        sum(run_score.true for run_score in scores),
        sum(run_score.false for run_score in scores),
    )
    seconds = sorted(run_score.seconds for run_score in scores if not math.isnan(run_score.seconds))
    return Totals(
        len(scores),
        true / (true + false) if true + false else math.nan,
        share(run_score.found for run_score in scores),
        share(run_score.rank for run_score in scores),
        share(run_score.phase for run_score in scores),
        share(run_score.cause for run_score in scores),
        quantile(seconds, 0.5),
        quantile(seconds, 0.9),
        false,
    )


def share(answers: Iterable[bool | None]) -> float:
    """Return the share of true values, without those that are None; NaN without any."""
    flags = [answer for answer in answers if answer is not None]
    return sum(flags) / len(flags) if flags else math.nan


def quantile(ordered: Sequence[float], ratio: float) -> float:
    """Return the smallest value that at least `ratio` of them do not exceed; NaN without any."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(ratio * len(ordered)) - 1)]
