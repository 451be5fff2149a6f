"""What a finding on a slow rank says of the job's usual step."""

from __future__ import annotations

import pytest

from stepwatch.collector.detect.straggler import LIMITS, detect
from tests.collector.detect.windows import settle, unknown_facts, window


def lost(*turns: tuple[int, slice]) -> float:
    """What the rank of the newest turn is said to cost, where ranks are twice as slow in turns."""
    step_window = window(128, 4, noise=0.01)
    for rank, steps in turns:
        for phase in ("forward", "backward"):
            step_window.planes[phase][steps, rank] *= 2.0
    settle(step_window)
    (finding,) = [
        candidate
        for candidate in detect(step_window, unknown_facts(4), LIMITS)
        if candidate.rank == turns[-1][0]
    ]
    return finding.lost_ratio


@pytest.mark.parametrize("first", [0, 2, 60, 120])
def test_a_rank_costs_as_much_whenever_it_began(first: int) -> None:
    assert lost((2, slice(first, None))) == pytest.approx(lost((2, slice(100, None))), rel=0.1)


def test_a_rank_costs_as_much_after_others_that_were_slow_before_it() -> None:
    turns = [(rank, slice(32 * rank, 32 * rank + 32)) for rank in range(4)]
    assert lost(*turns) == pytest.approx(lost((3, slice(96, None))), rel=0.1)
    assert lost(*turns[:3], (3, slice(96, None))) > 0.3
