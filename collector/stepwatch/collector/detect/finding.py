"""The result type of detectors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from stepwatch.signals.names import Cause, FindingKind

NO_RANK = -1
"""Rank number in a finding that names no rank."""
RESUME = "resume"
"""Subject of a finding on a resume that failed; attempts that try again have one incident."""
LOST_SHARE = "share of the time lost"
"""Evidence on a finding's cost with its interval: better than an estimate from a few steps."""


class Confidence(StrEnum):
    """Confidence in the object that a finding names; a guess is never presented as a fact."""

    CERTAIN = "certain"
    """Facts show it: the process is stopped, or it is the only rank that did not arrive."""
    LIKELY = "likely"
    """It explains the observations; another cause is possible."""
    ONE_OF = "one of"
    """One candidate in the summary is right; which one is unknown."""


class Evidence(NamedTuple):
    """One evidence row: a fact, its value and unit, and the reference value (`against`).

    A fact in words, a line of Python for example, is in `text`; its value is NaN. `reference` is
    the reference value as a number in the same unit, NaN if it is none.
    """

    name: str
    value: float
    unit: str
    against: str
    text: str = ""
    reference: float = math.nan


def text_evidence(name: str, text: str, against: str) -> Evidence:
    """Return an evidence row in words."""
    return Evidence(name, math.nan, "", against, text)


class Finding(NamedTuple):
    """One current anomaly.

    `began_step` is the first step that shows it, and `began_ago_seconds` its age relative to the
    newest record, NaN if unknown. `severity` orders findings within a kind. `ratio` is the slowdown
    against peers, NaN if that has no meaning. `lost_ratio` is the throughput share lost since the
    beginning, and `lost_now_ratio` that share in the newest seconds, NaN if it is the same. `node`
    names the node if no rank is named. `subject` separates findings within one kind: an operation
    and its group, a stage, a checkpoint. `confidence` says how certain the finding is.
    """

    kind: FindingKind
    rank: int
    phase: str
    cause: Cause
    summary: str
    began_step: int
    began_ago_seconds: float
    severity: float
    ratio: float
    lost_ratio: float
    evidence: tuple[Evidence, ...]
    node: str = ""
    subject: str = ""
    confidence: Confidence = Confidence.LIKELY
    lost_now_ratio: float = math.nan

    @property
    def lost_lately(self) -> float:
        """Return the throughput share that is lost now."""
        return self.lost_ratio if math.isnan(self.lost_now_ratio) else self.lost_now_ratio

    @property
    def shows_now(self) -> bool:
        """Return False if the newest seconds lose less than half of the average loss.

        In that case, current facts about the rank or its node do not explain the slowness.
        """
        return not self.lost_now_ratio < self.lost_ratio / 2


def build_finding(
    *,
    kind: FindingKind,
    cause: Cause,
    summary: str,
    began_step: int,
    rank: int = NO_RANK,
    phase: str = "other",
    began_ago_seconds: float = math.nan,
    severity: float = 1.0,
    ratio: float = math.nan,
    lost_ratio: float = math.nan,
    evidence: Iterable[Evidence] = (),
    node: str = "",
    subject: str = "",
    confidence: Confidence = Confidence.LIKELY,
    lost_now_ratio: float = math.nan,
) -> Finding:
    """Build a finding, the only supported way; defaults mean unknown, or name nothing.

    `confidence` is certain only if facts prove the finding.
    """
    return Finding(
        kind=kind,
        rank=rank,
        phase=phase,
        cause=cause,
        summary=summary,
        began_step=began_step,
        began_ago_seconds=began_ago_seconds,
        severity=severity,
        ratio=ratio,
        lost_ratio=lost_ratio,
        evidence=tuple(evidence),
        node=node,
        subject=subject,
        confidence=confidence,
        lost_now_ratio=lost_now_ratio,
    )
