"""What a detector finds in a window."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from stepwatch.signals.names import Cause, FindingKind

NO_RANK = -1
"""Rank of a finding that names no rank."""
LOST_SHARE = "share of the time lost"
"""Evidence on what a finding costs, with its interval: more than an estimate of a few steps."""


class Confidence(StrEnum):
    """How sure a finding is of what it names: never a guess dressed as a fact."""

    CERTAIN = "certain"
    """Facts show it: the process is stopped, the only rank that did not arrive."""
    LIKELY = "likely"
    """It explains what is seen; something else could."""
    ONE_OF = "one of"
    """It is one of those that the summary names; which of them is not known."""


class Evidence(NamedTuple):
    """One row of evidence: a fact, its value and unit, and what it is compared with (`against`).

    A fact in words, a line of Python for example, is in `text`; its value is NaN.
    """

    name: str
    value: float
    unit: str
    against: str
    text: str = ""


def text_evidence(name: str, text: str, against: str) -> Evidence:
    """Evidence in words."""
    return Evidence(name, math.nan, "", against, text)


class Finding(NamedTuple):
    """One thing that is wrong now.

    `began_step` is the first step it shows in; `began_ago_seconds` how long before the newest
    record that was, NaN if unknown; `severity` orders findings of a kind; `ratio` is the slowdown
    against peers, NaN where that means nothing; `lost_ratio` the share of throughput lost since it
    began, `lost_now_ratio` that of the newest seconds, NaN where it is no other.
    `node` names the node where no rank does, `subject` what else tells two findings of one kind
    apart: an operation and its group, a stage, a checkpoint. `confidence` says how sure it is.
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
        """The share of throughput that is lost now."""
        return self.lost_ratio if math.isnan(self.lost_now_ratio) else self.lost_now_ratio

    @property
    def shows_now(self) -> bool:
        """False where the newest seconds lose less than half of what it costs on average: what is
        known just now of the rank or its node says nothing of why it was slow."""
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
    """The only way to make a finding; what is left out is unknown, or names nothing.

    `confidence` is certain only where facts prove what the finding names.
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
