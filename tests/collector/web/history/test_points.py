"""Merged buckets are the buckets of all their values, and few enough."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.web.history.points import Points, few, finest_first, merged
from stepwatch.signals.arrays import Vector


def bucketed(values: Vector, seconds: int, attempt: int = 0) -> Points:
    """Buckets of one value a second; step and moment are the value's index."""
    starts = np.arange(0, len(values), max(seconds, 1))
    parts = [values[start : start + max(seconds, 1)] for start in starts]
    finite = [part[np.isfinite(part)] for part in parts]
    known = [part if len(part) else np.array([np.nan]) for part in finite]
    last = np.minimum(starts + max(seconds, 1), len(values)) - 1
    return Points(
        attempt=np.full(len(starts), attempt),
        first_step=starts,
        step=last,
        seconds=np.full(len(starts), seconds),
        begin=starts.astype(np.float64),
        at=last.astype(np.float64),
        mean=np.array([part.mean() for part in known]),
        least=np.array([part.min() for part in known]),
        greatest=np.array([part.max() for part in known]),
        last=np.array([part[-1] for part in parts]),
        weight=np.array([float(len(part)) for part in finite]),
        non_finite=np.array(
            [len(part) - len(kept) for part, kept in zip(parts, finite, strict=True)]
        ),
    )


numbers = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([float("nan"), float("inf"), float("-inf")])
)
series = st.lists(numbers, min_size=1, max_size=200).map(np.array)


@given(series, st.integers(1, 12), st.integers(1, 12))
def test_merged_buckets_equal_buckets_of_all_values(
    values: Vector, seconds: int, times: int
) -> None:
    fine, coarse = bucketed(values, seconds), bucketed(values, seconds * times)
    joined = merged(fine, np.arange(len(fine.step)) % times == 0)
    for name in ("first_step", "step", "at", "least", "greatest", "last", "weight", "non_finite"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(coarse, name), name)
    np.testing.assert_allclose(joined.mean, coarse.mean, rtol=1e-9, atol=1e-9)


@given(series, st.integers(2, 60), st.integers(0, 1 << 30))
def test_few_points_hold_all_values(values: Vector, most: int, seed: int) -> None:
    points = bucketed(values, 0)
    if seed % 3 == 0:  # a clock that was set
        points = points._replace(at=np.random.default_rng(seed).permutation(points.at))
    kept = few(points, most)
    assert len(kept.step) <= most
    assert kept.weight.sum() == np.isfinite(values).sum()
    assert kept.non_finite.sum() == (~np.isfinite(values)).sum()
    assert np.isfinite(kept.mean[kept.weight > 0]).all()


def test_attempts_stay_apart_while_they_are_few() -> None:
    first, second = bucketed(np.ones(60), 0), bucketed(np.full(60, 3.0), 0, attempt=1)
    points = Points.joined([first, second._replace(at=second.at + 60.5)])
    kept = few(points, 50)
    assert np.isin(kept.mean, [1.0, 3.0]).all()
    assert {*kept.attempt.tolist()} == {0, 1}


def test_each_part_of_the_time_is_at_its_finest_level() -> None:
    values = np.arange(100.0)
    steps, tens, hundreds = (bucketed(values, seconds) for seconds in (0, 10, 50))
    newest = steps.chosen(steps.step >= 87)
    some = tens.chosen(tens.step >= 70)
    points = finest_first([newest, some, hundreds])
    assert points.seconds.tolist() == [50, 50]
    points = finest_first([newest, tens.chosen(tens.step >= 50), hundreds])
    assert points.seconds.tolist() == [50, 10, 10, 10, 10, *[0] * 10]
    assert points.first_step.tolist() == [0, 50, 60, 70, 80, *range(90, 100)]
