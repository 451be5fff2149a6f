"""Requests that wait for a write are stored in one transaction, and each has its own answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from stepwatch.collector.ingest.together import WritesTogether
from stepwatch.collector.store import Added, Store, StoredSegment
from stepwatch.collector.store.database import writer_lock
from stepwatch.signals import wire
from stepwatch.signals.records import Kind
from tests.collector.made import HandClock, segment, step_rows

Outcome = list[Added] | sa.exc.SQLAlchemyError


def stored(*sequences: int) -> list[StoredSegment]:
    segments = [segment(number, {Kind.STEP: step_rows([1], [0])}) for number in sequences]
    return [StoredSegment(segment, wire.encode(segment)) for segment in segments]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    new_store = Store.sqlite(tmp_path / "s.db")
    yield new_store
    new_store.close()


def added_while_another_writes(
    store: Store, requests: list[list[StoredSegment]]
) -> dict[int, Outcome]:
    """What became of requests that all came while a write was under way."""
    writes = WritesTogether(store, HandClock(60.0))
    outcomes: dict[int, Outcome] = {}

    def add(number: int) -> None:
        try:
            outcomes[number] = writes.add(requests[number])[0]
        except sa.exc.SQLAlchemyError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=add, args=(number,)) for number in range(len(requests))]
    with writer_lock(store.engine):
        for number, thread in enumerate(threads, 1):
            thread.start()
            _until(lambda number=number: writes.waiting == number)  # type: ignore[misc]
    for thread in threads:
        thread.join(60.0)
    assert writes.waiting == 0
    return outcomes


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline, "nobody waits for the write"
        time.sleep(0.001)


def _commits(store: Store) -> list[None]:
    commits: list[None] = []
    sa.event.listen(store.engine, "commit", lambda _: commits.append(None))
    return commits


def test_requests_that_wait_are_stored_in_one_transaction(store: Store) -> None:
    commits = _commits(store)
    outcomes = added_while_another_writes(store, [stored(1, 2), stored(3), stored(4, 5, 6)])
    assert len(commits) == 1
    positions = [outcome.position for number in range(3) for outcome in outcomes[number]]  # type: ignore[union-attr]
    assert sorted(positions) == [1, 2, 3, 4, 5, 6]
    first = positions[:2]
    assert first == sorted(first)


def test_of_two_requests_with_one_segment_one_has_it_new(store: Store) -> None:
    outcomes = added_while_another_writes(store, [stored(1, 2), stored(2, 3)])
    new = [[outcome.new for outcome in outcomes[number]] for number in range(2)]  # type: ignore[union-attr]
    assert (new[0][0], new[1][1]) == (True, True)
    assert new[0][1] != new[1][0]
    assert store.payload_bytes(stored(1)[0].segment.key.job)[0] == 3


def test_a_request_whose_write_fails_takes_no_other_with_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, calls = store.add_segments, list[int]()

    def failing(segments: list[StoredSegment], received_ns: int) -> list[Added]:
        calls.append(len(segments))
        if len(calls) == 1:
            raise sa.exc.OperationalError("insert", {}, OSError("the disk is full"))
        return add(segments, received_ns)

    monkeypatch.setattr(store, "add_segments", failing)
    outcomes = added_while_another_writes(store, [stored(1), stored(2), stored(3)])
    failed = [
        outcome for outcome in outcomes.values() if isinstance(outcome, sa.exc.SQLAlchemyError)
    ]
    assert len(failed) == 1
    assert calls == [3, 2]
    assert sum(isinstance(outcome, list) and outcome[0].new for outcome in outcomes.values()) == 2


def test_a_transaction_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwatch.collector.ingest.together.MOST_SEGMENTS", 3)
    commits = _commits(store)
    outcomes = added_while_another_writes(store, [stored(1, 2), stored(3, 4), stored(5, 6, 7, 8)])
    assert len(commits) == 3
    assert sum(outcome.new for written in outcomes.values() for outcome in written) == 8  # type: ignore[union-attr]
