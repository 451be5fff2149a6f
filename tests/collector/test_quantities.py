"""Quantities in words: sane at every size, and unknown where nothing is known."""

from __future__ import annotations

import math

import pytest

from stepwatch.collector.quantities import UNKNOWN, quantity, seconds, size, times


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0 s"),
        (0.000068, "0.068 ms"),
        (0.0041, "4.1 ms"),
        (0.999, "999 ms"),
        (0.9996, "1.00 s"),
        (119.0, "119.00 s"),
        (744.0, "12.4 min"),
        (11_520.0, "3.2 h"),
        (math.nan, UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_durations(value: float | None, words: str) -> None:
    assert seconds(value) == words


def test_sizes() -> None:
    assert [size(figure) for figure in (0.0, 999.0, 2.1e6, 3e16, math.nan)] == [
        "0 B",
        "999 B",
        "2.1 MB",
        "30000.0 TB",
        UNKNOWN,
    ]


def test_a_ratio_to_next_to_nothing_is_told_without_its_digits() -> None:
    assert times(9.23) == "9.2x"
    assert times(6365.6) == times(math.inf) == "over 100x"


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.452, "seconds ago", "452 ms ago"),
        (67_108_864.0, "bytes", "67.1 MB"),
        (1.5e6, "bytes per second", "1.5 MB per second"),
        (1.5e6, "bytes_per_second", "1.5 MB per second"),
        (0.54, "ratio", "54%"),
        (3.0, "ranks", "3 ranks"),
        (0.0, "per second", "0 per second"),
        (0.0213, "per second", "0.0213 per second"),
        (2048.5, "tokens", "2,048 tokens"),
        (25.0, "step", "step 25"),
        (48_879.0, "digest", "beef"),
        (-9.0, "", "-9"),
        (2.71828, "loss", "2.72 loss"),
        (None, "ranks", UNKNOWN),
        (math.nan, "bytes", UNKNOWN),
    ],
)
def test_values_of_evidence_carry_their_unit(value: float | None, unit: str, words: str) -> None:
    assert quantity(value, unit) == words
