"""Whether a run is slower: how often that is said of runs that are not, and missed in others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.cli.compare.pace import (
    LEAST_BLOCKS,
    Pace,
    Verdict,
    pace,
    ratio,
    t_quantile,
    verdict,
)
from stepwatch.signals.arrays import Vector

BLOCKS, STEPS = 32, 10
BOUND = 0.05


def run_of(seconds: Vector, tokens: int = 1000, world: int = 4) -> dict[str, Any]:
    """The document of a run with steps of these lengths."""
    parts = np.reshape(seconds, (BLOCKS, -1))
    blocks = [
        {"steps": len(part), "tokens": tokens * len(part), "seconds": float(part.sum())}
        for part in parts
    ]
    return {"blocks": blocks, "world_size": world}


def noisy(random: np.random.Generator, mean: float, correlation: float, rare: float) -> Vector:
    """Steps of 3 % of noise that lasts (`again`: correlation from step to step), some far longer
    (`rare`: their share)."""
    noise = np.zeros(BLOCKS * STEPS)
    for index, shock in enumerate(
        random.normal(0.0, 0.03 * math.sqrt(1 - correlation**2), len(noise))
    ):
        noise[index] = correlation * noise[index - 1] + shock
    long = random.random(len(noise)) < rare
    return np.asarray(mean * (1 + noise) * np.where(long, random.uniform(2, 4, len(noise)), 1.0))


def verdict_on(base: Vector, new: Vector) -> Verdict:
    """What a comparison comes to."""
    base_pace, new_pace = pace(run_of(base), "tokens"), pace(run_of(new), "tokens")
    assert base_pace is not None and new_pace is not None
    return verdict(ratio(base_pace, new_pace), [BLOCKS, BLOCKS], BOUND)


@pytest.mark.parametrize(
    ("correlation", "rare"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.02), (0.6, 0.02)]
)
def test_how_often_it_is_wrong_or_does_not_know(correlation: float, rare: float) -> None:
    random = np.random.default_rng([14, round(10 * correlation), round(100 * rare)])
    trials = 300
    equal = [
        verdict_on(noisy(random, 0.2, correlation, rare), noisy(random, 0.2, correlation, rare))
        for _ in range(trials)
    ]
    slower = [
        verdict_on(
            noisy(random, 0.2, correlation, rare), noisy(random, 0.2 * 1.12, correlation, rare)
        )
        for _ in range(trials)
    ]
    # Of equal runs nearly none is a regression (it must look 5 % slower, and surely slower), and of
    # those that are 11 % slower none passes as if it were not.
    assert equal.count(Verdict.REGRESSION) <= 0.02 * trials
    assert slower.count(Verdict.NO_REGRESSION) <= 0.01 * trials
    if not rare:
        assert equal.count(Verdict.NO_REGRESSION) >= 0.98 * trials
        assert slower.count(Verdict.REGRESSION) >= 0.98 * trials


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    random = np.random.default_rng(15)
    hits = 0
    for _ in range(600):
        paces = [pace(run_of(noisy(random, mean, 0.3, 0.01)), "tokens") for mean in (0.2, 0.21)]
        assert paces[0] and paces[1]
        interval = ratio(paces[0], paces[1])
        hits += interval.low <= 0.2 / 0.21 <= interval.high
    assert 0.92 <= hits / 600 <= 0.985


def test_few_blocks_are_never_enough() -> None:
    sure = Pace(1.0, 1e-6, LEAST_BLOCKS - 1)
    slow = Pace(0.5, 1e-6, LEAST_BLOCKS)
    assert verdict(ratio(sure, slow), [sure.blocks, slow.blocks], BOUND) is Verdict.UNCLEAR
    assert verdict(None, [0, 0], BOUND) is Verdict.UNCLEAR


def test_other_numbers_of_devices_and_tokens_are_compared_by_device_and_token() -> None:
    seconds = np.full(BLOCKS * STEPS, 0.2)
    first_pace = pace(run_of(seconds, tokens=1000, world=4), "tokens")
    second_pace = pace(run_of(seconds, tokens=2000, world=8), "tokens")
    assert first_pace and second_pace and ratio(first_pace, second_pace).value == pytest.approx(1.0)
    assert first_pace.value == pytest.approx(1000 / 0.2 / 4)
    assert pace({"blocks": [], "world_size": 4}, "tokens") is None


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(7, 2.3646), (10, 2.2281), (20, 2.0860), (31, 2.0395), (62, 1.9990), (1e9, 1.95996)],
)
def test_t_quantile_against_a_table(freedom: float, expected: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(expected, rel=3e-3)


@given(
    st.floats(0.5, 2.0), st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.floats(0.0, 0.3), st.data()
)
def test_a_regression_never_passes_where_it_is_larger_or_surer(
    value: float, base_spread: float, new_spread: float, bound: float, data: st.DataObject
) -> None:
    base, new = Pace(1.0, base_spread, 16), Pace(value, new_spread, 16)
    judgement = verdict(ratio(base, new), [16, 16], bound)
    slower = Pace(value * data.draw(st.floats(0.5, 1.0)), new_spread, 16)
    if judgement is Verdict.REGRESSION:
        assert verdict(ratio(base, slower), [16, 16], bound) is Verdict.REGRESSION
    elif judgement is Verdict.UNCLEAR:
        assert verdict(ratio(base, slower), [16, 16], bound) is not Verdict.NO_REGRESSION
