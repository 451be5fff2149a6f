"""Values by rank are the newest changes, however the rows arrive."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.state.trackers.metrics.rank_values import (
    HELD_CHANGES,
    RankValues,
    rank_metric,
)

ROW = st.tuples(
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(0, 30),
    st.sampled_from([0.0, 1.0, 2.0, float("nan"), float("inf")]),
)
SHARD = rank_metric("shard")


def added(values: RankValues, rows: list[tuple[int, int, int, float]]) -> None:
    places, ranks, steps, numbers = (np.array(column) for column in zip(*rows, strict=True))
    values.add(places, ranks, steps, numbers.astype(float))


@given(st.lists(ROW, min_size=1, max_size=60), st.integers(1, 59))
def test_the_split_into_calls_makes_no_difference(
    rows: list[tuple[int, int, int, float]], cut: int
) -> None:
    together, parts = RankValues(), RankValues()
    added(together, rows)
    for part in (rows[:cut], rows[cut:]):
        for row in part:
            added(parts, [row])
    for name in ("loss_scale", "epoch", "shard"):
        for step in range(31):
            for one, other in zip(together.held(name, step), parts.held(name, step), strict=True):
                assert np.array_equal(one[: len(other)], other, equal_nan=True) or not len(other)


def test_a_value_is_held_since_its_change_and_knows_the_one_before() -> None:
    values = RankValues()
    added(values, [(SHARD, 1, step, float(step // 10)) for step in range(40)])
    held = values.held("shard", 25)
    assert (held.value[1], held.since[1], held.previous[1]) == (2.0, 20, 1.0)
    assert np.isnan(held.value[0]) and held.since[0] == -1
    first = values.held("shard", 5)
    assert first.value[1] == 0.0 and np.isnan(first.previous[1])


def test_only_the_newest_changes_are_held() -> None:
    values = RankValues()
    added(values, [(SHARD, 0, step, float(step)) for step in range(100)])
    oldest = 100 - HELD_CHANGES
    assert np.isnan(values.held("shard", oldest - 1).value[0])
    assert values.held("shard", oldest).value[0] == oldest


def test_names_may_have_a_path_before_the_loss_scale() -> None:
    assert rank_metric("Train/Samples/loss_scale") == rank_metric("loss_scale") >= 0
    assert rank_metric("val/epoch") == rank_metric("lr") == -1
