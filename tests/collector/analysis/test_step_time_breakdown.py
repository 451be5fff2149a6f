"""The step-time breakdown adds up; unknown stays unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.analysis.step_time_breakdown import PARTS, exposed, step_time_breakdown
from stepwatch.collector.state.collective_timing import Waits, waits
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.signals.records import Op
from tests.collector.detect.windows import window
from tests.collector.gathered import call_rows, group_rows, records_of


def blocked(step_window: Window, groups: list[list[int]]) -> CollectiveRecords:
    """Rows of one all-gather per group that block as long as the window says."""
    rows = [
        call_rows(
            [int(step)],
            {r: float(step_window.planes["collective"][position, r]) for r in ranks},
            number,
        )
        for position, step in enumerate(step_window.steps)
        for number, ranks in enumerate(groups)
    ]
    introduced = [group_rows(number, ranks) for number, ranks in enumerate(groups)]
    return records_of(np.concatenate(rows), *introduced)


def reported(calls: CollectiveRecords) -> Waits:
    return waits(calls.of_steps(0, 10_000), calls.groups)


@given(st.integers(0, 1000), st.floats(0.0, 0.5), st.lists(st.booleans(), min_size=24, max_size=24))
def test_the_parts_add_up_to_the_step(seed: int, noise: float, missing: list[bool]) -> None:
    step_window = window(6, 4, stages=2, noise=noise, seed=seed)
    waits = reported(blocked(step_window, [[0, 1], [2, 3]]))
    for plane in step_window.planes.values():
        plane[np.array(missing).reshape(6, 4)] = np.nan
    parts = step_time_breakdown(step_window, exposed(step_window, waits))
    if all(missing):
        assert parts is None
        return
    assert parts is not None and tuple(parts.seconds) == PARTS
    assert sum(parts.seconds.values()) == pytest.approx(parts.step_seconds, rel=1e-12)
    assert parts.seconds["unaccounted"] == pytest.approx(0.0, abs=1e-6)
    assert parts.seconds["collective_unsplit"] == 0.0
    assert parts.rank_steps == 24 - sum(missing)


def test_transfer_is_the_least_of_each_group() -> None:
    step_window = window(4, 4)
    step_window.planes["collective"][:] = [0.3, 0.1, 0.2, 0.6]
    split = exposed(step_window, reported(blocked(step_window, [[0, 1], [2, 3]])))
    np.testing.assert_allclose(split.transfer, [[0.1, 0.1, 0.2, 0.2]] * 4, rtol=1e-6)
    np.testing.assert_allclose(split.wait, [[0.2, 0.0, 0.0, 0.4]] * 4, rtol=1e-6, atol=1e-9)


def test_the_step_decides_how_long_and_the_calls_in_which_ratio() -> None:
    step_window = window(1, 2)
    step_window.planes["collective"][:] = 0.2
    rows = call_rows(step_window.steps.tolist(), {0: 1.0, 1: 4.0})
    split = exposed(step_window, reported(records_of(rows, group_rows(7, [0, 1]))))
    np.testing.assert_allclose(split.transfer, [[0.2, 0.05]], rtol=1e-6)


def test_what_cannot_be_told_apart_is_a_part_of_its_own() -> None:
    step_window = window(4, 2, noise=0.3)
    calls = records_of(
        call_rows(step_window.steps[:2].tolist(), {0: 0.1, 1: 0.2}), group_rows(7, [0, 1])
    )
    split = exposed(step_window, reported(calls))
    unknown = np.isnan(split.transfer)
    assert unknown[2:].all() and not unknown[:2].any()
    parts = step_time_breakdown(step_window, split)
    assert parts is not None
    lost = step_window.planes["collective"][2:].sum(dtype=np.float64) / 8
    assert parts.seconds["collective_unsplit"] == pytest.approx(lost)
    assert parts.seconds["transfer"] > 0


def test_pipeline_sends_do_not_blur_the_ratio() -> None:
    step_window = window(3, 2)
    steps = step_window.steps.tolist()
    gathers = call_rows(steps, {0: 0.1, 1: 0.3})
    sends = call_rows(steps, {0: 5.0, 1: 5.0}, op=Op.SEND)
    split = exposed(
        step_window, reported(records_of(np.concatenate([gathers, sends]), group_rows(7, [0, 1])))
    )
    expected = step_window.planes["collective"][:, 1] / 3
    np.testing.assert_allclose(split.transfer[:, 1], expected, rtol=1e-5)


def test_calls_of_other_steps_and_ranks_are_left_out() -> None:
    step_window = window(2, 2, first_step=100)
    rows = call_rows([99, 100, 101, 102, 4_000_000_000], {0: 0.1, 1: 0.2, 9: 0.0})
    split = exposed(step_window, reported(records_of(rows, group_rows(7, [0, 1, 9]))))
    assert split.transfer.shape == (2, 2)
    np.testing.assert_allclose(split.transfer, 0.0, atol=1e-9)
