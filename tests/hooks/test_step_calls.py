"""Steps by two calls and around a function: the same records as `with watch.step()`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import PHASE_NAMES, Kind, StepFlag

from .conftest import rows_in

UNFINISHED = int(StepFlag.UNFINISHED)


def flags_in(rings: Path) -> list[int]:
    """Flags of each step, without that of the first one."""
    return [int(flags) & ~StepFlag.FIRST for flags in rows_in(rings, Kind.STEP)["flags"]]


def test_two_calls_record_what_a_with_block_records(watch: Watch, rings: Path) -> None:
    for number in range(3):
        watch.begin_step(tokens=10)
        with watch.phase("forward"):
            pass
        watch.end_step(loss=float(number), grad_norm=2.0)
    watch.begin_step()
    watch.record(loss=9.0)
    watch.end_step(tokens=7)
    rows = rows_in(rings, Kind.STEP)
    assert rows["step"].tolist() == [0, 1, 2, 3]
    assert rows["tokens"].tolist() == [10, 10, 10, 7]
    assert rows["loss"].tolist() == [0.0, 1.0, 2.0, 9.0]
    assert flags_in(rings) == [0, 0, 0, 0] and watch.guard.errors == 0


def test_an_end_without_a_begin_records_nothing(watch: Watch, rings: Path) -> None:
    watch.end_step(loss=1.0)
    watch.begin_step()
    watch.end_step()
    watch.end_step()
    rows = rows_in(rings, Kind.STEP)
    assert len(rows) == 1 and rows["loss"][0] != rows["loss"][0]
    assert watch.guard.errors == 2


def test_a_step_that_continue_left_is_unfinished(watch: Watch, rings: Path) -> None:
    for number in range(3):
        watch.begin_step(tokens=number)
        if number == 1:
            continue
        watch.end_step()
    assert rows_in(rings, Kind.STEP)["tokens"].tolist() == [0, 1, 2]
    assert flags_in(rings) == [0, UNFINISHED, 0]
    assert watch.guard.errors == 1


def test_an_exception_that_the_loop_catches_leaves_an_unfinished_step(
    watch: Watch, rings: Path
) -> None:
    for number in range(2):
        try:
            watch.begin_step()
            with watch.phase("backward"):
                if number == 0:
                    raise MemoryError("mine")
            watch.end_step()
        except MemoryError:
            pass
    rows = rows_in(rings, Kind.STEP)
    assert flags_in(rings) == [UNFINISHED, 0] and rows["backward_ns"][1] < rows["duration_ns"][1]


def test_closing_records_a_step_that_nobody_ended(watch: Watch, rings: Path) -> None:
    watch.begin_step(tokens=4)
    watch.close()
    assert flags_in(rings) == [UNFINISHED]
    watch.begin_step()
    watch.end_step()
    assert len(rows_in(rings, Kind.STEP)) == 1


def test_each_call_of_a_step_function_is_a_step(watch: Watch, rings: Path) -> None:
    @watch.step_function
    def train(value: float, *, fails: bool = False) -> float:
        """Trains."""
        watch.record(loss=value)
        if fails:
            raise KeyError("mine")
        return 2 * value

    assert train(1.5) == 3.0 and train.__doc__ == "Trains."
    with pytest.raises(KeyError, match="mine"):
        train(2.5, fails=True)
    assert rows_in(rings, Kind.STEP)["loss"].tolist() == [1.5, 2.5]
    assert flags_in(rings) == [0, UNFINISHED]


def test_calls_mixed_with_a_with_block_are_misuse_and_hurt_nobody(watch: Watch) -> None:
    with watch.step():
        watch.begin_step()
        watch.end_step()
    watch.end_step()
    assert watch.guard.errors >= 2


def test_a_watch_that_is_disabled_takes_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWATCH_DISABLE", "1")
    watch = Watch.from_env(job="job")
    watch.begin_step(tokens=3)
    watch.record(loss=1.0)
    watch.end_step(loss=1.0)
    assert watch.step_function(lambda: 5)() == 5


def test_the_documentation_of_watch_lists_every_phase() -> None:
    assert [name for name in PHASE_NAMES if f"`{name}`" not in str(Watch.__doc__)] == []
