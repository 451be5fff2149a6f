"""Profile requests: one open per job, bounded, over by the database's clock, on both databases."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import sqlalchemy as sa

from stepwatch.collector.store import Store, schema
from stepwatch.collector.store.profiles import (
    DayOfProfiles,
    Profiles,
    ProfileState,
    Wanted,
    requests,
)
from stepwatch.signals.errors import StoreError
from tests.collector.store.test_response import Time

WANTED = Wanted("llama", 0, 5, "gpu-01", 4, "gpu-00", 1200, 3, ["c0ffee"], "ada")
TRACE = b"\x1f\x8b" + bytes(100)
COMPARISON: dict[str, Any] = {"rank": 5, "rows": [{"name": "aten::mm\x00\ud800"}]}


def test_a_request_collects_two_traces_and_their_comparison(opened: Store) -> None:
    box = Profiles(opened.engine, Time())
    added = box.add(WANTED)
    assert (added.state, added.wanted, added.seconds_left) == (ProfileState.ASKED, WANTED, 600.0)
    assert box.open_requests() == [added] == box.of_job("llama")
    assert (added.node_of(5), added.node_of(4), added.node_of(3)) == ("gpu-01", "gpu-00", None)
    assert not box.add_trace(added.id, 5, TRACE)
    assert box.trace(added.id, 5) == TRACE and box.trace(added.id, 4) is None
    assert box.add_trace(added.id, 4, TRACE), "the second trace completes the pair"
    box.close(added.id, "aten::mm 2.1x", COMPARISON)
    compared = box.get(added.id)
    assert compared is not None and compared.comparison == COMPARISON
    assert (compared.state, compared.sentence) == (ProfileState.COMPARED, "aten::mm 2.1x")
    assert [(trace.rank, trace.node, trace.bytes) for trace in compared.traces] == [
        (4, "gpu-00", len(TRACE)),
        (5, "gpu-01", len(TRACE)),
    ]
    assert box.open_requests() == []
    (listed,) = box.newest(["llama", "other"])
    assert (listed.id, listed.sentence, listed.comparison) == (added.id, "aten::mm 2.1x", None)
    assert box.newest(["other"]) == []
    box.close(added.id, "a later result changes nothing")
    assert box.get(added.id) == compared


def test_a_reason_fails_the_request(opened: Store) -> None:
    added = opened.profiles.add(WANTED)
    assert not opened.profiles.add_trace(added.id, 5, b"", "the trainer profiles already")
    failed = opened.profiles.get(added.id)
    assert failed is not None and failed.state is ProfileState.FAILED
    assert failed.sentence == "rank 5: the trainer profiles already"
    assert opened.profiles.open_requests() == []
    with pytest.raises(StoreError, match="closed"):
        opened.profiles.add_trace(added.id, 4, TRACE)


def test_a_rank_answers_once_and_other_ranks_never(opened: Store) -> None:
    added = opened.profiles.add(WANTED)
    opened.profiles.add_trace(added.id, 5, TRACE)
    for identity, rank, message in (
        (added.id, 5, "answered the request before"),
        (added.id, 3, "not about rank 3"),
        ("unknown", 5, "closed"),
    ):
        with pytest.raises(StoreError, match=message):
            opened.profiles.add_trace(identity, rank, b"\x1f\x8bother")
    assert opened.profiles.trace(added.id, 5) == TRACE


def test_an_old_request_expires_and_makes_place(opened: Store) -> None:
    clock = Time()
    box = Profiles(opened.engine, clock)
    first = box.add(WANTED)
    clock.seconds += requests.EXPIRY_SECONDS - 1.0
    with pytest.raises(StoreError, match="in progress"):
        box.add(WANTED)
    box.add(WANTED._replace(job="other"))
    clock.seconds += 1.0
    expired = box.get(first.id)
    assert expired is not None and expired.state is ProfileState.EXPIRED
    assert "no answer came in time" in expired.sentence
    with pytest.raises(StoreError, match="closed"):
        box.add_trace(first.id, 5, TRACE)
    second = box.add(WANTED)
    assert [request.id for request in box.of_job("llama")] == [second.id, first.id]


def test_a_day_has_a_limited_number_of_requests(
    opened: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MOST_A_DAY", 2)
    clock = Time()
    box = Profiles(opened.engine, clock)
    for _ in range(2):
        box.close(box.add(WANTED).id, "no excess", COMPARISON)
        clock.seconds += 60.0
    with pytest.raises(StoreError, match="had 2 profiles in a day"):
        box.add(WANTED)
    clock.seconds += 86_400.0
    box.add(WANTED)


def test_an_incident_has_one_request_of_the_collector(opened: Store) -> None:
    clock = Time()
    box = Profiles(opened.engine, clock)
    box.close(box.add(WANTED, 100).id, "no excess", COMPARISON)
    with pytest.raises(StoreError, match="the incident has a profile"):
        box.add(WANTED._replace(incidents=["other", "c0ffee"]), 100)
    clock.seconds += 3 * 86_400.0
    with pytest.raises(StoreError, match="the incident has a profile"):
        box.add(WANTED, 100)
    box.add(WANTED._replace(job="other"), 100)
    box.add(WANTED)  # an operator may ask again


def test_profiled_steps_of_a_day_are_limited(opened: Store) -> None:
    clock = Time()
    box = Profiles(opened.engine, clock)
    box.close(box.add(WANTED._replace(incidents=[])).id, "no excess", COMPARISON)
    with pytest.raises(StoreError, match="llama had 3 profiled steps in a day"):
        box.add(WANTED, 5)
    clock.seconds += 86_400.0
    box.add(WANTED, 5)


def test_requests_of_a_day_are_counted_by_outcome(opened: Store) -> None:
    clock = Time()
    box = Profiles(opened.engine, clock)
    box.add(WANTED)
    clock.seconds += requests.EXPIRY_SECONDS
    box.add_trace(box.add(WANTED).id, 5, b"", "the trainer profiles already")
    box.close(box.add(WANTED).id, "the traces were not compared")
    for _ in range(2):
        box.close(box.add(WANTED).id, "no excess", {**COMPARISON, "step_seconds": 0.5})
    box.close(box.add(WANTED).id, "no excess", {**COMPARISON, "step_seconds": "0.5"})
    box.add(WANTED)
    counts = {"asked": 1, "compared": 3, "no-trace": 1, "not-compared": 1, "expired": 1}
    assert box.of_day() == DayOfProfiles(counts, 3.0)
    clock.seconds += 86_400.0
    assert box.of_day() == DayOfProfiles(dict.fromkeys(counts, 0), 0.0)


def test_old_requests_and_traces_go(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MOST_KEPT", 2)
    clock = Time()
    box = Profiles(opened.engine, clock)
    identities = []
    for _ in range(3):
        identities.append(box.add(WANTED).id)
        box.add_trace(identities[-1], 5, TRACE)
        clock.seconds += 7 * 86_400.0 + 1.0
    kept = box.of_job("llama")
    assert [request.id for request in kept] == identities[:0:-1]
    assert box.trace(identities[0], 5) is None
    box.add(WANTED)
    # Its trace is older than the retention; that it came is still known.
    assert box.trace(identities[1], 5) is None
    assert box.trace(identities[2], 5) == TRACE


def test_of_two_traces_at_the_same_time_one_completes_the_pair(opened: Store) -> None:
    added = opened.profiles.add(WANTED)
    together = threading.Barrier(2)

    def meet(connection: Any, cursor: Any, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO profile_trace"):
            with suppress(threading.BrokenBarrierError):  # a lock keeps the other one outside
                together.wait(0.5)

    sa.event.listen(opened.engine, "before_cursor_execute", meet)
    with ThreadPoolExecutor(2) as pool:
        ranks = (WANTED.rank, WANTED.peer)
        pairs = [*pool.map(lambda rank: opened.profiles.add_trace(added.id, rank, TRACE), ranks)]
    assert sorted(pairs) == [False, True]


def test_of_two_requests_at_the_same_time_one_is_refused(opened: Store) -> None:
    with opened.engine.begin() as connection:
        row = {"name": "llama", "position": 0, "first_received_ns": 1, "last_received_ns": 1}
        connection.execute(schema.job.insert(), row)

    def add(_: int) -> bool:
        try:
            opened.profiles.add(WANTED)
        except StoreError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(add, range(4))) == [False, False, False, True]
