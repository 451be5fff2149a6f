"""Inputs for the data stall detector."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding, text_evidence
from stepwatch.collector.detect.observed import observed_ranks, window_of
from stepwatch.collector.detect.steps import loads_data
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.statistics.medians import median
from stepwatch.signals.phrases import ranks_text

from . import detector


def find(context: DetectionContext) -> list[Finding]:
    """Return findings on a job whose ranks all wait for data."""
    first = context.early_baseline
    baseline, limits = None, context.thresholds(detector.LIMITS)
    if first:
        remainder = first["duration"] - first["checkpoint"] - first["eval"] - first["data"]
        baseline = _baseline((first["data"] / np.maximum(remainder, 1e-9)).tobytes(), limits)
    course = context.course
    lasts_s = 0.0 if course is None else lasting_seconds(course, limits)
    ranks = observed_ranks(context)
    window = window_of(context.window, ranks)
    findings = detector.detect(window, baseline, limits, lasts_s, ranks)
    if findings and context.unobserved:
        unseen = ranks_text(sorted(context.unobserved))
        row = text_evidence("ranks not observed", unseen, "")
        words = f"; nothing is known of {unseen}"
        findings = [
            finding._replace(summary=finding.summary + words, evidence=(*finding.evidence, row))
            for finding in findings
        ]
    return [context.dated(finding) for finding in findings]


@lru_cache(maxsize=256)
def _baseline(ratios: bytes, limits: detector.Thresholds) -> detector.Baseline | None:
    """Return the baseline for one ratio per first step; completed first steps never change."""
    return detector.baseline_of(np.frombuffer(ratios), limits)


def lasting_seconds(course: Course, limits: detector.Thresholds) -> float:
    """Return for how long data has taken a ticket-worthy share of a usual step, in seconds.

    The share is that of the median rank that loads data, in every bucket of `course` up to now. A
    usual step is the median bucket's step: an evaluation does not make a data wait smaller.
    """
    if not len(course.seconds):
        return 0.0
    usual = median(course.seconds / course.steps)
    shares = course.work[:, WORK.index("data")] / (course.steps[:, None] * usual)
    loaders = loads_data(shares.mean(axis=0), 1.0)
    if not loaders.any() or median(shares[-1, loaders]) < limits.lasting_share:
        return 0.0
    short = np.flatnonzero(np.median(shares[:, loaders], axis=1) < limits.lasting_share)
    return float(course.seconds[short[-1] + 1 if len(short) else 0 :].sum())
