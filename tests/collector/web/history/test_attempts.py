"""Curves of one attempt of a job whose steps a later one repeats."""

from __future__ import annotations

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.history.curves import CURVES, SHARED_CURVES, Curves, read_curves
from stepwatch.collector.web.history.points import Points
from tests.collector.made import JOB, body
from tests.collector.runtime.test_restart import eventful_run

REPEATED_FROM, STEPS = 40, 60


@pytest.fixture
def curves(service: Service) -> Curves:
    """Curves of a job whose second attempt resumed at step 40."""
    service.receive(body(eventful_run()))
    service.evaluate()
    published = service.answer(JOB, CURVES, SHARED_CURVES)
    assert published is not None
    return read_curves(published.value)


def steps_of(points: Points) -> list[int]:
    return [int(step) for step in points.step]


def check_attempts(curves: Curves) -> None:
    for name in curves.names:
        if name.name == "tokens_per_second":  # the first step has no rate
            continue
        assert steps_of(curves.points(name)) == [*range(STEPS)]
        assert steps_of(curves.of_attempt(name, 0)) == [*range(STEPS)]
        assert steps_of(curves.of_attempt(name, 1)) == [*range(REPEATED_FROM, STEPS)]
        assert steps_of(curves.of_attempt(name, 2)) == []
    assert len(curves.names) >= 3


def test_an_attempt_has_the_steps_that_a_later_one_repeats(curves: Curves) -> None:
    check_attempts(curves)


def test_another_collector_reads_the_same(service: Service, curves: Curves) -> None:
    packed = service.answer(JOB, SHARED_CURVES, SHARED_CURVES)
    assert packed is not None and isinstance(packed.value, bytes)
    check_attempts(read_curves(packed.value))
