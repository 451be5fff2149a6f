"""A tracker is a file in `trackers/`: the registry finds it, and attempts feed it its kinds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwatch.collector.state import registry, trackers
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.steps.steps import Steps
from stepwatch.signals.records import Kind
from tests.collector.made import segment, state_rows, step_rows

FILE = '''
from stepwatch.collector.state.tracker import Tracker
from stepwatch.signals.records import Kind


class Spans(Tracker):
    """Counts the rows of two kinds."""

    kinds = frozenset({Kind.STEP, Kind.HOST})
    given_back = True

    def __init__(self):
        self.batches, self.world = 0, 0

    def apply(self, batch, attempt):
        self.batches += 1

    def resize(self, world):
        self.world = world

    @property
    def cells(self):
        return 1000 * self.batches
'''


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file beside the trackers that nothing else names."""
    (tmp_path / "spans.py").write_text(FILE)
    monkeypatch.setattr(trackers, "__path__", [*trackers.__path__, str(tmp_path)])
    registry.discover.cache_clear()
    yield f"{trackers.__name__}.spans"
    registry.discover.cache_clear()
    sys.modules.pop(f"{trackers.__name__}.spans", None)


def apply(attempt: Attempt, **rows: int) -> None:
    """Apply one segment with states, and steps if there are any."""
    tables = {Kind.RANK_STATE: state_rows(range(4), 4, 1.0)}
    if rows.get("steps"):
        tables[Kind.STEP] = step_rows(range(rows["steps"]), range(4))
    attempt.apply(segment(1, tables), Received(1.0, 1.0))


def test_a_new_tracker_is_a_new_file(added: str) -> None:
    attempt = Attempt(0)
    (kind,) = (
        tracker_kind for tracker_kind in registry.discover() if tracker_kind.__module__ == added
    )
    apply(attempt)
    spans = attempt.tracker(kind)
    assert vars(spans) == {"batches": 0, "world": 4}, "it is sized, and given only its kinds"
    cells_before = attempt.cells
    apply(attempt, steps=3)
    assert vars(attempt.tracker(kind))["batches"] == 1
    assert attempt.cells >= cells_before + 1000, "and counts towards the bound on memory"
    attempt.release()
    apply(attempt, steps=3)
    assert vars(attempt.tracker(kind))["batches"] == 0, "what was given back is not filled again"


def test_those_that_size_others_come_first() -> None:
    orders = [tracker_kind.order for tracker_kind in registry.discover()]
    assert orders == sorted(orders)
    names = [tracker_kind.__name__ for tracker_kind in registry.discover()]
    assert names.index("Ranks") < names.index("LifecycleEvents") < names.index("Steps")
    assert names.index("CollectiveRecords") < names.index("Steps")


def test_a_released_attempt_keeps_its_history_and_refuses_steps() -> None:
    attempt = Attempt(0)
    apply(attempt, steps=3)
    attempt.release()
    apply(attempt, steps=5)
    assert attempt.cells == 0 == attempt.tracker(CollectiveRecords).cells
    assert len(attempt.tracker(Steps).history) == 3
    assert attempt.refused_records == 5 * 4
