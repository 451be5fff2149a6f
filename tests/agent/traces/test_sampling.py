"""Every anomalous step is traced, once; of the others one in so many, the same on all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwatch.agent.traces.sampling import FEWEST_STEPS, HELD_ROWS, MOST_STEPS
from stepwatch.signals.records import Kind, NumericsSource, StepFlag

from .made import named, reasons_of, rows, step, steps, traced, usual

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        (step(7), None),
        (step(7, flags=StepFlag.FIRST), ("first",)),
        (step(7, flags=StepFlag.UNFINISHED), ("unfinished",)),
        (step(7, loss=INF), ("non-finite",)),
        (step(7, grad_norm=-INF), ("non-finite",)),
        (step(7, loss=NAN), None),
        (step(7, flags=StepFlag.FIRST | StepFlag.UNFINISHED), ("first", "unfinished")),
        (step(3_000_000), ("sampled",)),
    ],
)
def test_a_step_is_traced_for_a_reason(record: Any, reasons: tuple[str, ...] | None) -> None:
    expected = [] if reasons is None else [(0, record["step"], reasons)]
    assert reasons_of(traced(steps(record))) == expected


def test_a_step_is_slow_beside_the_median_of_its_own_rank() -> None:
    history = steps(*(step(number, rank, ms=10 * (rank + 1)) for rank in (0, 1)
                      for number in range(1, 20)))  # fmt: skip
    later_steps = steps(
        step(20, 0, ms=21), step(20, 1, ms=39), step(21, 0, ms=19), step(21, 1, ms=41)
    )
    assert reasons_of(traced(history, later_steps)) == [(0, 20, ("slow",)), (1, 21, ("slow",))]


def test_nothing_is_slow_before_a_median_is_known() -> None:
    assert reasons_of(traced(usual(1, FEWEST_STEPS - 1), steps(step(50, ms=9_000)))) == []
    assert reasons_of(traced(usual(1, FEWEST_STEPS), steps(step(50, ms=9_000)))) != []


@pytest.mark.parametrize("pause", ["checkpoint_ns", "eval_ns"])
def test_a_pause_makes_no_step_slow(pause: str) -> None:
    paused = step(20, ms=500, flags=StepFlag.AFTER_PAUSE, **{pause: 490_000_000})
    assert reasons_of(traced(usual(1, 19), steps(paused))) == []


def test_first_and_unfinished_steps_are_no_measure_of_the_others() -> None:
    long = steps(*(step(number, ms=900, flags=StepFlag.FIRST) for number in range(1, 9)))
    assert (0, 40, ("slow",)) in reasons_of(traced(long, usual(10, 20), steps(step(40, ms=30))))


def test_all_ranks_keep_the_same_steps() -> None:
    flushes = [usual(1, 100, rank) for rank in range(3)]
    assert reasons_of(traced(*flushes, every=25)) == [
        (rank, number, ("sampled",)) for rank in range(3) for number in (25, 50, 75, 100)
    ]


@pytest.mark.parametrize("first", ["step", "numerics"])
def test_values_that_are_not_finite_are_found_in_whichever_pack_they_come(first: str) -> None:
    numerics = {
        Kind.NUMERICS: rows(
            Kind.NUMERICS,
            {"rank": 1, "step": 5, "source": NumericsSource.GRAD_NORM, "nonfinite": 3},
            {"rank": 0, "step": 5, "source": NumericsSource.PARAMETERS},
        )
    }
    recorded = steps(step(5, 0), step(5, 1))
    flushes = [recorded, {}, numerics] if first == "step" else [numerics, {}, recorded]
    assert reasons_of(traced(*flushes)) == [(1, 5, ("non-finite",))]


def test_a_step_is_traced_once() -> None:
    first = {
        **steps(step(5, flags=StepFlag.UNFINISHED, loss=INF)),
        Kind.NUMERICS: rows(Kind.NUMERICS, {"step": 5, "nonfinite": 1}),
    }
    more = {Kind.NUMERICS: rows(Kind.NUMERICS, {"step": 5, "nonfinite": 2})}
    assert reasons_of(traced(first, {}, more, usual(6, 9))) == [
        (0, 5, ("unfinished", "non-finite"))
    ]


def test_a_storm_of_anomalous_steps_is_cut_and_counted() -> None:
    from stepwatch.agent.traces.sampling import Sampler

    sampler = Sampler(1)
    assert len(sampler.choose(usual(1, MOST_STEPS + 5))) == MOST_STEPS
    assert sampler.left_out == 5
    assert len(sampler.choose(usual(100, 101))) == 2, "those left out are not traced later"


def test_what_is_held_between_packs_is_bounded_and_the_newest() -> None:
    collectives = {Kind.COLLECTIVE: rows(Kind.COLLECTIVE, {"step": 7, "op": 1, "time_ns": 10**12})}
    older = np.repeat(rows(Kind.COLLECTIVE, {"step": 1, "time_ns": 1}), HELD_ROWS)
    spans = traced(collectives, {Kind.COLLECTIVE: older}, steps(step(7, flags=StepFlag.FIRST)))
    assert len(named(spans, "all_reduce")) == 1
