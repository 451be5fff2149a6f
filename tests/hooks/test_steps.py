"""What a trainer gives with a step: its number and its tokens, whatever they are."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind

from .conftest import rows_in


def test_the_step_number_moves_on_whatever_a_step_holds(watch: Watch, rings: Path) -> None:
    wrong: Any = "many"
    for tokens in (1, wrong, 3):
        with watch.step(tokens=tokens):
            pass
    rows = rows_in(rings, Kind.STEP)
    assert rows["step"].tolist() == [0, 1, 2] and rows["tokens"].tolist() == [1, 0, 3]
    assert watch.guard.errors == 1


class OnDevice:
    """A number that lies on a device, as a tensor does; reading it would wait."""

    device = types.SimpleNamespace(type="cuda")

    def __int__(self) -> int:
        """Waits."""
        raise AssertionError("somebody waited for a device")

    __index__ = __int__


def test_tokens_on_a_device_are_not_waited_for(watch: Watch, rings: Path) -> None:
    with watch.step(tokens=OnDevice()):  # type: ignore[arg-type]
        pass
    watch.close()
    assert watch.guard.errors == 1
    assert rows_in(rings, Kind.STEP)["tokens"].tolist() == [0]


@pytest.mark.parametrize("number", [9.0, "9", None, -1, OnDevice()])
def test_a_number_of_a_step_that_is_none_changes_nothing(
    watch: Watch, rings: Path, number: Any
) -> None:
    with watch.step():
        pass
    watch.recorder.number(number)
    with watch.step(), watch.phase("forward"):
        pass
    watch.close()
    assert watch.guard.errors == 1
    assert rows_in(rings, Kind.STEP)["step"].tolist() == [0, 1]
