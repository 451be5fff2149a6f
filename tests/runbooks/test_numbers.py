"""The numbers on the pages are the detectors' own: a threshold that moves takes its page along."""

from __future__ import annotations

import re

import pytest

from stepwatch import runbooks
from stepwatch.alerts.thresholds import NOT_RESTARTED_SECONDS
from stepwatch.alerts.verdict import KEEP_FIRING_SECONDS
from stepwatch.collector.detect import (
    checkpoint_stall,
    data_skew,
    data_stall,
    hang,
    held_up,
    pause,
    slow_collective,
    straggler,
    telemetry,
    throughput_regression,
)
from stepwatch.collector.incidents.transitions import RESOLVE_AFTER_SECONDS
from stepwatch.collector.slo.states import COVERAGE_FLOOR
from stepwatch.collector.state.evidence.held_up import LEVEL_OF_WORK

STATED = [
    ("TrainingCheckpointStall", "three times as long", 3.0, checkpoint_stall.LIMITS.least_ratio),
    ("TrainingCheckpointStall", "five minutes)", 300.0, checkpoint_stall.LIMITS.first_seconds),
    ("TrainingCheckpointStall", "3.5 % of the run's", 0.035, checkpoint_stall.LIMITS.most_share),
    ("TrainingDataSkew", "more than 1.25 times", 1.25, data_skew.LIMITS.least_ratio),
    ("TrainingDataSkew", "1.25th part", 1.25, data_skew.LIMITS.least_ratio),
    ("TrainingDataStall", "a quarter of the step", 0.25, data_stall.LIMITS.least_share),
    ("TrainingDataStall", "at least three times", 3.0, data_stall.LIMITS.least_ratio),
    ("TrainingDataStall", "three quarters of the ranks", 0.75, data_stall.LIMITS.nearly_all_share),
    ("TrainingHang", "eight usual steps", 8.0, hang.LIMITS.step_multiple),
    ("TrainingHang", "and at least 5 s", 5.0, hang.LIMITS.least_seconds),
    ("TrainingHang", "ten minutes in the first step", 600.0, hang.LIMITS.first_step_seconds),
    ("TrainingHang", "more than ten minutes in the first", 600.0, hang.LIMITS.first_step_seconds),
    ("TrainingHang", "30 s in the next few steps", 30.0, hang.LIMITS.early_seconds),
    ("TrainingHang", "two minutes if a rank is lost", 120.0, NOT_RESTARTED_SECONDS),
    ("TrainingHang", "75 s after the last sign of work", 75.0, hang.LIMITS.legal_seconds),
    ("TrainingHang", "105 s in a", 105.0, hang.LIMITS.marked_seconds),
    ("TrainingHang", "1.5 times the longest", 1.5, hang.LIMITS.pause_multiple),
    ("TrainingHang", "eight minutes if a rank works", 480.0, hang.LIMITS.held_seconds),
    ("TrainingHang", "fifteen minutes in a named", 900.0, hang.LIMITS.pause_seconds),
    ("TrainingPause", "8 s, if others wait", 8.0, pause.LIMITS.quiet_seconds),
    ("TrainingPause", "75 s, if the rank computes", 75.0, hang.LIMITS.legal_seconds),
    ("TrainingPause", "four minutes, if no rank waits", 240.0, pause.LIMITS.least_seconds),
    ("TrainingPause", "1.5 times the", 1.5, hang.LIMITS.pause_multiple),
    ("TrainingPause", "it may take fifteen minutes", 900.0, hang.LIMITS.pause_seconds),
    ("TrainingSlowCollective", "more than twice", 2.0, slow_collective.LIMITS.least_ratio),
    ("TrainingSlowCollective", "at least 15 %", 0.15, slow_collective.LIMITS.least_excess_ratio),
    ("TrainingSlowCollective", "five times", 5.0, slow_collective.LIMITS.certain_ratio),
    ("TrainingSlowCollective", "and 5 %", 0.05, slow_collective.LIMITS.least_lost_ratio),
    ("TrainingStraggler", "more than 1.5 times", 1.5, straggler.LIMITS.least_ratio),
    ("TrainingStraggler", "A rank at 1.5 times", 1.5, straggler.LIMITS.least_ratio),
    ("TrainingStraggler", "at least 2 % of", 0.02, straggler.LIMITS.least_lost_ratio),
    ("TrainingThroughputRegression", "loses 15 % of", 0.15, held_up.LIMITS.least_lost),
    ("TrainingThroughputRegression", "by two usual steps", 2.0, LEVEL_OF_WORK),
    ("TrainingDataStall", "from 15 %", 0.15, held_up.LIMITS.least_lost),
    ("TrainingDataStall", "10 % of the time on", 0.1, held_up.LIMITS.least_lost_together),
    ("TrainingTelemetryLost", "for 15 seconds", 15.0, telemetry.LIMITS.least_seconds),
    ("TrainingTelemetryLost", "more than a tenth", 0.1, float(1 - COVERAGE_FLOOR)),
    ("TrainingTelemetryLost", "coverage is back above 0.9", 0.9, float(COVERAGE_FLOOR)),
    (
        "TrainingThroughputRegression",
        "1.3 times as long",
        1.3,
        throughput_regression.LIMITS.least_ratio,
    ),
    (
        "TrainingThroughputRegression",
        "for two minutes",
        120.0,
        throughput_regression.LIMITS.least_seconds,
    ),
]
"""Page, phrase, the number in it, and the threshold that it states."""

OF_THE_WORLD = ("10 minutes by default with NCCL",)
"""Numbers that are not ours."""

_QUANTITY = re.compile(
    r"\b(?:\d[\d.]*|half|quarters?|two|three|four|five|six|eight|ten|fifteen|twenty)"
    r"(?:\s(?:%|s|ms|seconds?|minutes?|hours?|times|fifths|of the step|usual steps)(?!\w)|th part)"
)


def prose(page: str, section: str = "") -> str:
    """Return a page or one of its sections in one line."""
    markdown = runbooks.load(page).markdown
    if section:
        markdown = markdown.split(f"## {section}\n")[1].split("\n## ")[0]
    return " ".join(markdown.split())


@pytest.mark.parametrize(("page", "phrase", "stated", "limit"), STATED)
def test_a_number_on_a_page_is_the_threshold(
    page: str, phrase: str, stated: float, limit: float
) -> None:
    assert phrase in prose(page)
    assert limit == pytest.approx(stated)


@pytest.mark.parametrize("page", runbooks.names())
def test_no_number_of_the_meaning_is_left_unchecked(page: str) -> None:
    text = prose(page, "Meaning")
    for phrase in (*OF_THE_WORLD, *(phrase for name, phrase, *_ in STATED if name == page)):
        text = text.replace(phrase, "")
    assert _QUANTITY.findall(text) == []


@pytest.mark.parametrize("page", runbooks.names())
def test_how_long_an_incident_and_its_alert_last_is_as_they_do(page: str) -> None:
    written = prose(page, "Verification")
    for seconds in re.findall(r"closes by itself (\d+) s", written):
        assert float(seconds) == RESOLVE_AFTER_SECONDS
    for minutes in re.findall(r"alert (?:follows )?within (\d+) minutes", written):
        assert 60 * int(minutes) == KEEP_FIRING_SECONDS


def test_most_pages_say_how_long_it_takes_to_close() -> None:
    written = [name for name in runbooks.names() if "itself 15 s" in prose(name, "Verification")]
    assert len(written) >= 5
