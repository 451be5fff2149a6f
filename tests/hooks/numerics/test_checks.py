"""Which tensors of a device are checked, and what is done where it has no room for that."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.numerics import deferred_scalars
from stepwatch.hooks.numerics.non_finite import MOST_REDUCTIONS
from stepwatch.signals.records import NumericsSource

torch = pytest.importorskip("torch", reason="tensors need torch")


class OnDevice:
    """What a reduction takes in, on a device that this machine does not have."""

    device = torch.device("meta")

    def numel(self) -> int:
        return 1000


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setenv("STEPWATCH_RING_DIR", str(tmp_path))
    return Watch.from_env(job="checks", rank=0, world=1)


def checked_in_steps(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, steps: int, reductions: int
) -> list[set[int]]:
    """The reductions that are checked in each step, by their number in it."""
    numerics = watch.instruments.numerics
    checked_numbers: list[set[int]] = []
    under_way = [0]
    monkeypatch.setattr(numerics, "check", lambda *_: checked_numbers[-1].add(under_way[0]))
    for _ in range(steps):
        checked_numbers.append(set())
        with watch.step():
            for number in range(reductions):
                under_way[0] = number
                numerics.check_reduction([OnDevice()], "all_reduce")
    watch.close()
    return checked_numbers


def test_few_reductions_are_all_checked(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = checked_in_steps(watch, monkeypatch, 4, MOST_REDUCTIONS)
    assert checked == [set(range(MOST_REDUCTIONS))] * 4


def test_of_many_reductions_all_have_their_turn_and_no_step_checks_more(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 5 * MOST_REDUCTIONS
    checked = checked_in_steps(watch, monkeypatch, 10, many)[1:]
    assert max(map(len, checked)) <= MOST_REDUCTIONS
    assert set.union(*checked[:8]) == set(range(many))


class Untouchable:
    """An event that must not be asked: that would end the capture of a graph."""

    def query(self) -> bool:
        raise AssertionError("asked during a capture")


def test_during_a_capture_no_scalar_is_copied_and_none_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deferred_scalars, "is_capturing", lambda kind: kind == "meta")
    scalar = deferred_scalars.scalar(torch.ones((), device="meta"))
    assert isinstance(scalar, float)
    assert math.isnan(scalar)
    on_its_way = object.__new__(deferred_scalars.DeviceScalar)
    on_its_way._kind, on_its_way._event = "meta", Untouchable()
    assert not on_its_way.ready()


def test_a_check_that_found_no_memory_is_not_tried_again(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def full(*_: Any) -> None:
        tries.append(1)
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(torch, "_foreach_norm", full)
    numerics = watch.instruments.numerics
    with watch.step():
        for _ in range(3):
            wanted = {0: torch.ones(4)}
            numerics._enqueue("cpu", wanted, str, NumericsSource.COLLECTIVE_INPUT)
    watch.close()
    assert len(tries) == 1
    assert "no device memory for the check of gradients" in caplog.text
