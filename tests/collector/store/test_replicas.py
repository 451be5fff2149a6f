"""Two collectors over one database say what one alone says, and only one of them says it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwatch.collector.runtime import shared_views, surplus, tenancy
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo import registry as slis
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import LEASE_SECONDS, Leases
from stepwatch.collector.store.slices import Slice
from stepwatch.collector.web.api import make_api
from stepwatch.signals import names
from stepwatch.signals.clock import NANOSECONDS
from tests.collector.client import Client
from tests.collector.exported import metric
from tests.collector.histories import differences
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.runtime.test_restart import eventful_run

RUN = eventful_run()


class Pair:
    """Two collectors over one database, whose clock the test turns."""

    def __init__(self, url: str) -> None:
        self.clock = HandClock(60.0)
        self.stores = [Store(url), Store(url)]
        self.database_s = 1_800_000_000.0
        self.first, self.second = self.services = [
            self.started(store, name) for store, name in zip(self.stores, "ab", strict=True)
        ]

    def started(self, store: Store, name: str) -> Service:
        return Service(store, self.clock, Leases(store.engine, name, lambda _: self.now_ns()))

    def now_ns(self) -> int:
        return int(self.database_s * NANOSECONDS)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.database_s += seconds

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def pair(url: str) -> Iterator[Pair]:
    new_pair = Pair(url)
    yield new_pair
    new_pair.close()


def written(store: Store) -> tuple[dict[str, list[Slice]], list[dict[str, Any]]]:
    """Slices and incidents as they are stored; the ids of incidents are random."""
    slices = {name: store.slices(JOB, name) for name in slis.discover()}
    return slices, [{**item, "id": None} for item in store.incidents.newest()]


def single_collector_rows(folder: Path) -> tuple[dict[str, list[Slice]], list[dict[str, Any]]]:
    """What one collector writes that was given the whole run."""
    clock, store = HandClock(60.0), Store.sqlite(folder / "alone.db")
    service = Service(store, clock)
    for item in RUN:
        service.receive(body([item]))
        service.evaluate()
        clock.advance(0.5)
    rows_written = written(store)
    store.close()
    return rows_written


def test_segments_that_alternate_are_evaluated_as_by_one_alone(pair: Pair, tmp_path: Path) -> None:
    for number, item in enumerate(RUN):
        pair.services[number % 2].receive(body([item]))
        for service in pair.services:
            service.evaluate()
        pair.advance(0.5)
        for service in pair.services:
            service.tenancy.tick()
    assert written(pair.stores[0]) == single_collector_rows(tmp_path)
    assert pair.first.tenancy.epochs() == {JOB: 1} and pair.second.tenancy.epochs() == {}
    assert pair.first.job(JOB) is not None and pair.second.job(JOB) is None
    assert [metric(service, names.COLLECTOR_REPLICAS) for service in pair.services] == [2.0, 2.0]
    assert [metric(service, names.COLLECTOR_JOBS) for service in pair.services] == [1.0, 0.0]


def test_a_takeover_goes_on_where_the_other_was(pair: Pair, tmp_path: Path) -> None:
    half = len(RUN) // 2
    for number, item in enumerate(RUN):
        pair.services[number % 2].receive(body([item]))
        if number < half:
            pair.first.evaluate()
        if number == half:  # the first is dead, and the second waits for its lease to run out
            pair.database_s += LEASE_SECONDS + 1.0
            pair.second.tenancy.tick()
        pair.second.evaluate()
        pair.advance(0.5)
    assert written(pair.stores[1]) == single_collector_rows(tmp_path)
    assert pair.second.tenancy.epochs() == {JOB: 2}


def test_one_that_was_stopped_for_long_writes_nothing_and_takes_its_place_behind(
    pair: Pair,
) -> None:
    pair.first.receive(body(RUN[:6]))
    pair.first.evaluate()
    pair.database_s += LEASE_SECONDS + 1.0
    pair.second.tenancy.tick()
    pair.second.receive(body(RUN[6:]))
    pair.second.evaluate()
    original = written(pair.stores[0])
    # It wakes up in the middle of what it did, and knows nothing yet.
    entry = pair.first.state.get(JOB)
    assert entry is not None
    pair.first.restorer.follow([entry], 10.0)
    pair.first._evaluate(entry)
    assert written(pair.stores[0]) == original
    assert metric(pair.first, names.COLLECTOR_WRITES_REFUSED) == 1.0
    assert pair.first.job(JOB) is None and pair.first.withheld() == {}
    pair.first.tenancy.tick()
    pair.first.evaluate()
    assert pair.first.job(JOB) is None and pair.first.tenancy.epochs() == {}
    assert pair.first.evaluation_failures == 0


def test_a_clean_stop_hands_over_at_once_and_with_a_snapshot(pair: Pair) -> None:
    pair.first.receive(body(RUN))
    pair.first.evaluate()
    first_state = pair.first.job(JOB)
    pair.first.stop()
    pair.first.run(0.001)
    pair.second.tenancy.tick()
    pair.second.evaluate()
    second_state = pair.second.job(JOB)
    assert first_state is not None and second_state is not None
    assert differences(first_state[0], second_state[0]) == []
    assert pair.second.tenancy.epochs() == {JOB: 2} and pair.second.tenancy.replicas == 1


def test_those_who_live_share_what_a_dead_one_held(pair: Pair) -> None:
    jobs = [f"job-{number}" for number in range(6)]
    third = pair.started(pair.stores[0], "c")
    for job in jobs:
        third.receive(body(run_segments(5, job=job)))
    third.evaluate()
    assert len(third.tenancy.epochs()) == 6
    pair.database_s += LEASE_SECONDS - 1.0
    for service in pair.services:
        service.tenancy.tick()
    pair.database_s += 2.0
    for service in pair.services:
        service.tenancy.tick()
        service.evaluate()
    assert [len(service.tenancy.epochs()) for service in pair.services] == [3, 3]
    assert {name for service in pair.services for name in service.tenancy.epochs()} == {*jobs}


def test_what_is_more_than_a_share_goes_to_one_that_started_later(pair: Pair) -> None:
    """A few a minute, each saved before; nobody takes back what it gave."""
    jobs = [f"job-{number}" for number in range(9)]
    pair.second.tenancy.leave()
    for job in jobs:
        pair.first.receive(body(run_segments(5, job=job)))
    pair.first.evaluate()
    pair.first.tenancy.tick()
    assert (len(pair.first.tenancy.epochs()), pair.first.tenancy.surplus) == (9, 0)
    late_service = pair.started(pair.stores[1], "late")
    late_service.tenancy.tick()
    shares = []
    for _ in range(4):
        for service in (pair.first, late_service):
            service.tenancy.tick()
            service.evaluate()
        shares.append((len(pair.first.tenancy.epochs()), len(late_service.tenancy.epochs())))
        for _ in range(int(surplus.EVERY_SECONDS / 5.0)):
            pair.advance(5.0)
            for service in (pair.first, late_service):
                service.tenancy.tick()
    assert shares == [(9, 0), (6, 3), (5, 4), (5, 4)]
    assert {*pair.first.tenancy.epochs(), *late_service.tenancy.epochs()} == {*jobs}
    for job in late_service.tenancy.epochs():
        job_state = late_service.job(job)
        assert job_state is not None and pair.first.job(job) is None
        assert len(job_state[0].current.steps.history) == 5
        assert pair.stores[1].snapshots.newest_first(job)
    assert late_service.snapshotter.counts["unreadable"] == 0 and late_service.withheld() == {}


def test_one_that_cannot_renew_shows_nothing_that_another_may_have_taken_over(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.first.receive(body(RUN))
    pair.first.evaluate()
    assert metric(pair.first, names.COLLECTOR_JOBS) == 1.0
    pair.first.tenancy.tick()
    assert pair.first.tenancy.replicas == 2
    monkeypatch.setattr(tenancy, "LEASE_SECONDS", 0.0)
    assert metric(pair.first, names.COLLECTOR_JOBS) == 0.0
    pair.first.tenancy.replicas = 1
    assert metric(pair.first, names.COLLECTOR_JOBS) == 1.0, "alone it cannot be so"


def test_every_collector_answers_for_every_job_and_says_of_when(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, other_client = (Client(make_api(service)) for service in pair.services)
    pair.first.receive(body(RUN))
    pair.second.receive(body(run_segments(5, job="mine")))
    for service in pair.services:
        service.evaluate()
        service.tenancy.tick()
    pair.first.evaluate()
    asked_at, paths = pair.clock.wall, ["", "/heatmap", "/collectives"]
    paths += ["/series", "/spent", "/marks", "/matrix", "/matrix?by=node"]
    pair.advance(3.0)

    def evaluated_meanwhile(_: float) -> None:
        pair.first.shared_views._next_s = 0.0
        pair.first.shared_views.write(pair.first.state.jobs())

    monkeypatch.setattr(time, "sleep", evaluated_meanwhile)
    for path in paths:
        own_answer, other_answer = (
            client.get(f"/v1/jobs/{JOB}{path}").json() for client in (holder, other_client)
        )
        assert other_answer["as_of"] >= asked_at
        assert {**own_answer, "as_of": 0} == {**other_answer, "as_of": 0}, path
    lines = other_client.get("/v1/jobs").json()["jobs"]
    assert [(line["job"], line["step"]) for line in lines] == [("mine", 4), (JOB, 59)]
    assert other_client.get("/v1/jobs/nobody").status_code == 404
    exported = [client.get("/metrics").text for client in (holder, other_client)]
    assert [JOB in text for text in exported] == [True, False]


def test_what_another_collector_said_long_ago_does_not_look_well(pair: Pair) -> None:
    """It holds the job, and its lease is renewed; but it evaluates nothing any more."""
    other_client = Client(make_api(pair.second))
    make_api(pair.first)
    pair.first.receive(body(RUN))
    for service in pair.services:
        service.tenancy.tick()
        service.evaluate()
    said_at = pair.clock.wall
    fresh = other_client.get(f"/v1/jobs/{JOB}").json()
    assert fresh["as_of"] == said_at and "stale" not in fresh
    pair.advance(40.0)
    pair.first.tenancy.tick()
    (line,) = other_client.get("/v1/jobs").json()["jobs"]
    summary = other_client.get(f"/v1/jobs/{JOB}").json()
    for document in (line, summary):
        assert (document["as_of"], document["step"], document["state"]) == (said_at, 59, "stale")
        assert document["stale"]["seconds"] == 40.0 and document["stale"]["state"] == fresh["state"]
        assert document["stale"]["reason"].startswith("as of 40 s ago; the collector")
        assert {slo["state"] for slo in document["slos"]} == {"unknown"}
        assert document["open_incidents"] == (fresh["open_incidents"] or None)


def test_an_answer_that_does_not_change_is_not_old(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_client = Client(make_api(pair.second))
    make_api(pair.first)
    pair.first.receive(body(RUN))
    for service in pair.services:
        service.tenancy.tick()
        service.evaluate()
    (job,) = pair.first.state.jobs()
    first_view = pair.stores[0].views.get(JOB, "line")
    for _ in range(5):
        pair.advance(shared_views.AGAIN_SECONDS)
        pair.first.shared_views._next_s = 0.0
        pair.first.shared_views.write([job])
    second_view = pair.stores[0].views.get(JOB, "line")
    assert (
        first_view is not None
        and second_view is not None
        and second_view.payload == first_view.payload
    )
    document = other_client.get(f"/v1/jobs/{JOB}").json()
    assert document["as_of"] == pair.clock.wall and "stale" not in document


def test_one_alone_writes_no_answers(pair: Pair) -> None:
    pair.second.tenancy.leave()
    pair.first.tenancy.tick()
    pair.first.receive(body(RUN))
    pair.first.evaluate()
    assert pair.first.tenancy.replicas == 1
    assert pair.stores[0].views.all_of("line") == []
