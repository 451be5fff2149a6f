"""Figures over a job's whole run are late by a share of its age."""

from __future__ import annotations

import math

import pytest

from stepwatch.collector.runtime.evaluation.accounting import late_seconds
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.records import Kind
from tests.collector.made import segment, step_rows


@pytest.mark.parametrize(
    ("age_s", "least_s", "late_s"),
    [
        (0.0, 5.0, 5.0),
        (200.0, 5.0, 5.0),
        (1000.0, 5.0, 20.0),
        (1000.0, 30.0, 30.0),
        (1e6, 5.0, 60.0),
    ],
)
def test_a_figure_is_as_late_as_two_percent_of_the_age(
    age_s: float, least_s: float, late_s: float
) -> None:
    job = LiveJob("job")
    for sequence, received_s in enumerate((1000.0, 1000.0 + age_s), 1):
        rows = {Kind.STEP: step_rows([sequence], [0])}
        job.apply(segment(sequence, rows), Received(received_s, received_s))
    assert math.isclose(late_seconds(job, least_s), late_s)
