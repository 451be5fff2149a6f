"""A window's planes are those of its ring, whichever of them are read, and of which steps."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.state.evidence.step_window import (
    COLUMNS,
    DEVICE_COLUMNS,
    IDLE,
    VALUES,
    StepRing,
    Window,
)
from tests.collector.made import step_rows

RANKS, STEPS = 4, 40


@pytest.fixture
def window() -> Window:
    """Steps 8 to 39, of which rank 2 did not report every fifth."""
    ring = StepRing(RANKS)
    rows = step_rows(range(STEPS), range(RANKS))
    rows["forward_ns"] = 1000 * rows["step"] + rows["rank"]
    ring.add(rows[(rows["rank"] != 2) | (rows["step"] % 5 > 0)])
    return ring.window(32, np.zeros(RANKS, dtype=np.int16))


def forward(steps: list[int]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    expected = np.add.outer(1000.0 * np.array(steps), np.arange(RANKS)) / 1e9
    missing = [index for index, step in enumerate(steps) if step % 5 == 0]
    expected[missing, 2] = np.nan
    return expected.astype(np.float32)


def test_a_plane_holds_what_ranks_reported(window: Window) -> None:
    assert window.steps.tolist() == list(range(8, STEPS))
    np.testing.assert_array_equal(window.planes["forward"], forward(list(range(8, STEPS))))
    assert set(window.planes) == {*DEVICE_COLUMNS, *VALUES}
    assert all(np.isnan(window.planes[name]).all() for name in IDLE), "of the devices' clock"
    with pytest.raises(KeyError):
        window.planes["backwards"]


@pytest.mark.parametrize("read_before", [False, True])
def test_some_steps_of_a_plane_are_those_of_the_whole(window: Window, read_before: bool) -> None:
    chosen = np.array([0, 2, 7])
    if read_before:
        assert window.planes["forward"].shape == (32, RANKS)
    expected = forward([8, 10, 15])
    np.testing.assert_array_equal(window.plane("forward", chosen), expected)
    part = window.select(chosen)
    np.testing.assert_array_equal(part.planes["forward"], expected)
    assert part.steps.tolist() == [8, 10, 15]
    assert all(part.planes[name].shape == (3, RANKS) for name in (*COLUMNS, *IDLE))


def test_steps_can_be_taken_by_a_mask_and_from_a_part_again(window: Window) -> None:
    part = window.select(window.steps % 2 == 0).select(np.array([1, 3]))
    assert part.steps.tolist() == [10, 14]
    np.testing.assert_array_equal(part.planes["forward"], forward([10, 14]))
