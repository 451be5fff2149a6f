"""A ring that is removed in mid-run is followed on in the new one: no record is lost or doubled."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from stepwatch.agent.rings.tail import Tail
from stepwatch.signals.blackbox import FileCondition
from stepwatch.signals.records import Kind
from tests.agent.conftest import Rank


def read_steps(tail: Tail) -> list[int]:
    """Steps that one flush reads."""
    tail.discover()
    steps: list[int] = []
    for tails in tail.attempts().values():
        tables = tail.read(tails)
        assert Kind.GAP not in tables
        steps += tables[Kind.STEP]["step"].tolist() if Kind.STEP in tables else []
    tail.forget_missing(time.monotonic_ns())
    return steps


@pytest.mark.parametrize("seen_without", [True, False])
def test_records_around_a_removal_are_read_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seen_without: bool
) -> None:
    rank = Rank(tmp_path)
    tail = Tail(tmp_path)
    rank.steps(3)
    first = read_steps(tail)
    shutil.rmtree(tmp_path / "job")
    rank.steps(2)
    between = read_steps(tail) if seen_without else []
    rank.ring.renew(FileCondition.REMOVED)
    rank.steps(2)
    later_steps = [step for _ in range(3) for step in read_steps(tail)]
    assert len(first) == 3 and [*first, *between, *later_steps] == sorted(
        {*first, *between, *later_steps}
    )
    assert len([*first, *between, *later_steps]) == 7
    if seen_without:
        assert "was removed while its rank may still run" in caplog.text
        assert str(tmp_path / "job") in caplog.text
