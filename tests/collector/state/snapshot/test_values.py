"""Values survive being taken apart; what cannot is refused, and nothing strange is made."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.state.readings import Readings
from stepwatch.collector.state.snapshot import Document, put_together, taken_apart
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.lifecycle import Lifecycle
from stepwatch.collector.state.trackers.ranks import RankView
from stepwatch.signals.errors import SnapshotError
from stepwatch.signals.records import Kind, LifecycleEvent, make_rows
from tests.collector.histories import state_of

SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(LifecycleEvent)
)
VALUES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.lists(inner, max_size=5).map(lambda items: deque(items, maxlen=5))
        | st.sets(st.integers())
        | st.frozensets(st.text())
        | st.dictionaries(st.integers() | st.text() | st.tuples(st.integers()), inner)
    ),
    max_leaves=20,
)


def round_trip(value: Any, shift_s: float = 0.0) -> Any:
    return put_together(taken_apart(value), shift_s)


@given(VALUES)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = round_trip(value)
    assert list(state_of(back)) == list(state_of(value))
    assert type(back) is type(value)


def test_arrays_rows_and_numbers_come_back_with_their_types() -> None:
    rows = make_rows(Kind.STEP, 3, step=[4, 5, 6])
    value = {
        "rows": rows,
        "row": rows[1],
        "plane": np.arange(6, dtype=np.float32).reshape(2, 3),
        "none": np.zeros((0, 4)),
        "number": np.float32(1.5),
    }
    back = round_trip({**value, "row": rows[1].copy()})
    assert list(state_of(back)) == list(state_of(value))
    assert back["number"].dtype == np.float32
    back["rows"]["step"] += 1
    assert rows["step"].tolist() == [4, 5, 6]


def test_an_object_held_twice_is_one_object_afterwards() -> None:
    readings = Readings(("a", "b"), 8)
    readings.add("node", 1.0, np.array([1.0, 2.0]))
    first, second = round_trip([readings, readings])
    assert first is second
    for holder in (first, readings):
        holder.add("node", 2.0, np.array([3.0, 4.0]))
    assert list(state_of(first)) == list(state_of(readings))


def test_a_document_does_not_change_with_the_value() -> None:
    values = np.arange(3)
    document = taken_apart(values)
    values += 10
    assert put_together(document).tolist() == [0, 1, 2]


def test_moments_of_the_monotonic_clock_move_and_no_other() -> None:
    row = make_rows(Kind.RANK_STATE, 1)[0]
    view = round_trip(RankView("n", 100.0, row), 7.0)
    assert view.received_monotonic_s == 107.0
    assert round_trip(Received(wall_s=5.0, monotonic_s=2.0), -1.5) == (5.0, 0.5)
    assert math.isnan(round_trip(RankView("n", math.nan, row), 7.0).received_monotonic_s)


def test_two_holders_of_one_container_hold_one_afterwards() -> None:
    shapes: list[Any] = [[], {}, set(), deque(maxlen=2)]
    for shared in shapes:
        first, second = round_trip((shared, shared))
        assert first is second
    endless: list[Any] = []
    endless.append(endless)
    (inside,) = restored = round_trip(endless)
    assert inside is restored


def test_arrays_that_share_memory_are_refused() -> None:
    values = np.arange(12.0).reshape(3, 4)
    with pytest.raises(SnapshotError, match="share memory"):
        taken_apart([values, values[1]])
    with pytest.raises(SnapshotError, match="share memory"):
        taken_apart([values[:, 1], values[::-1, 1]])
    assert len(taken_apart([values, values]).arrays) == 1


@pytest.mark.parametrize("value", [object(), test_arrays_that_share_memory_are_refused, print])
def test_what_is_no_state_is_refused(value: object) -> None:
    with pytest.raises((SnapshotError, TypeError)):
        taken_apart([value])


@pytest.mark.parametrize(
    "tree",
    [
        ["object", 0, "os:system"],
        ["object", 0, "collector.runtime.service:Service"],
        ["class", "builtins:eval"],
        ["enum", "signals.records:Kind", -5],
        ["record", "collector.state.trackers.lifecycle:Lifecycle", 1],
        ["array", 4],
        ["row", 0, 9],
        ["row", 0, -1],
        ["same", 3],
        ["map", 0, 1],
        ["map"],
        ["map", 0, ["list", 1], 2],
        ["list", ["list", 0]],
        ["unheard-of", 1],
        ["number", "O", 1],
        ["number", "|i1", 300],
        ["number", "<i8", float("inf")],
        ["bytes", "?"],
        [],
        {"a": 1},
    ],
)
def test_a_tree_that_nobody_wrote_is_refused(tree: Any) -> None:
    with pytest.raises(SnapshotError):
        put_together(Document(tree, [make_rows(Kind.STEP, 2)]))


def test_a_tree_deeper_than_any_state_is_refused() -> None:
    tree: Any = 1
    for _ in range(100_000):
        tree = ["list", tree]
    with pytest.raises(SnapshotError):
        put_together(Document(tree, []))


def test_records_keep_their_class() -> None:
    event = Lifecycle(*range(len(Lifecycle._fields)))
    assert isinstance(round_trip(event), Lifecycle)
