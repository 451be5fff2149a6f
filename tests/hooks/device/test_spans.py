"""Durations on the device add up to the step, and idle time is part of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.hooks.core import BUCKETS, COLLECTIVE
from stepwatch.hooks.device.spans import monotone, spans_of
from stepwatch.signals.records import Phase

BOUNDARIES = st.lists(
    st.tuples(
        st.integers(0, BUCKETS - 1),
        st.integers(0, 10**10),
        st.integers(0, 10**10),
        st.none() | st.tuples(st.integers(0, 3), st.integers(0, 8)),
    ),
    min_size=1,
    max_size=20,
)
"""(bucket, host ns until the next boundary, device ns until it, key)."""


@settings(max_examples=200, deadline=None)
@given(boundaries=BOUNDARIES, begin=st.integers(0, 10**15), lead=st.integers(-(10**9), 10**9))
def test_durations_add_up_and_idle_is_part_of_them(
    boundaries: list[tuple[int, int, int, tuple[int, int] | None]], begin: int, lead: int
) -> None:
    buckets = [boundary[0] for boundary in boundaries]
    moments = list(itertools.accumulate((boundary[1] for boundary in boundaries), initial=begin))
    positions = list(itertools.accumulate((boundary[2] for boundary in boundaries), initial=0))
    spans = spans_of(
        moments, positions, buckets, [boundary[3] for boundary in boundaries], begin + lead
    )
    assert sum(spans.device) == positions[-1]
    pairs = zip(spans.idle, spans.device, strict=True)
    assert all(0 <= idle <= device for idle, device in pairs)
    collective_seconds = sum(collective[1] for collective in spans.collectives.values())
    assert collective_seconds <= spans.device[COLLECTIVE]


@pytest.mark.parametrize(
    ("host", "lead", "device", "idle"),
    [(100, 0, 100, 100), (2, 30, 25, 0), (40, 0, 41, 40), (5, -9, 3, 3), (2, 0, 25, 2)],
)
def test_a_device_is_idle_where_nothing_was_enqueued_ahead(
    host: int, lead: int, device: int, idle: int
) -> None:
    spans = spans_of([0, host], [0, device], [int(Phase.DATA)] * 2, [None] * 2, lead)
    assert (spans.device[Phase.DATA], spans.idle[Phase.DATA]) == (device, idle)


def test_a_loss_that_is_read_shows_a_slow_device_in_forward_and_not_as_idle() -> None:
    """ms: forward is launched in 2, the device works for 25, then `.item()` blocks for 23."""
    forward, other_phase = int(Phase.FORWARD), int(Phase.OTHER)
    spans = spans_of([0, 2, 25], [0, 25, 25], [forward, other_phase], [None, None], 0)
    assert (spans.device[forward], spans.idle[forward]) == (25, 2)
    assert (spans.device[other_phase], spans.idle[other_phase]) == (0, 0)


def test_collectives_are_summed_by_group_and_operation() -> None:
    """Two calls of one key and one of another, each with 1 of compute before it."""
    buckets = [int(Phase.FORWARD), COLLECTIVE] * 3
    keys = [None, (7, 1), None, (7, 1), None, (8, 2)]
    positions = [0, 1, 6, 7, 16, 17, 19]
    spans = spans_of([0] * 7, positions, buckets, keys, 0)
    assert spans.collectives == {(7, 1): [2, 14, 9, 1], (8, 2): [1, 2, 2, 17]}


def test_positions_never_fall() -> None:
    assert monotone([5, 7, 6, 9]) == [5, 7, 7, 9]
