from __future__ import annotations

import math

import numpy as np
import pytest

from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind

from .limit import limit_of, power

DICE = np.random.default_rng(3)
BEFORE = DICE.standard_normal(20_000)


def test_what_changes_nothing_is_found_as_often_as_by_chance() -> None:
    assert power(BEFORE, BEFORE, 200.0) < 0.001


@pytest.mark.parametrize(("shift", "steps"), [(0.5, 20.0), (0.3, 100.0), (0.2, 400.0)])
def test_of_normal_noise_the_limit_is_that_of_the_textbook(shift: float, steps: float) -> None:
    # A mean of n values is found if its shift exceeds the false alarms' quantile.
    threshold = 3.39
    textbook = 0.5 * math.erfc((threshold - shift * math.sqrt(steps)) / math.sqrt(2.0))
    assert power(BEFORE, BEFORE + shift, steps) == pytest.approx(textbook, abs=0.07)


def test_a_larger_and_a_more_frequent_effect_can_be_found_more_often() -> None:
    def limit(effect: float, period: int) -> float:
        scenario = with_fault(FaultKind.SLOW_COMPUTE, 2, effect=effect, period=period)
        return limit_of(scenario, scenario.faults[0])

    assert limit(1.001, 1) < limit(1.05, 1)
    assert limit(3.0, 50) <= limit(3.0, 1)
    assert limit(3.0, 1) > 0.99


def test_of_what_slows_no_part_of_a_step_no_limit_is_known() -> None:
    scenario = with_fault(FaultKind.STOPPED_NOW_AND_THEN, 2, effect=0.2)
    assert math.isnan(limit_of(scenario, scenario.faults[0]))
