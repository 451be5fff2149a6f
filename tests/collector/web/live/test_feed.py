"""What a reading of the jobs tells: changes at their pace, and jobs elsewhere or no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Leases
from stepwatch.collector.web.documents import LINE
from stepwatch.collector.web.live.feed import QUIET_SECONDS, Feed
from stepwatch.collector.web.live.log import News
from stepwatch.collector.web.live.pulse import VIEWS
from stepwatch.collector.web.live.topics import Topics
from tests.collector.made import JOB, HandClock, body, run_segments

FLEET, FOLLOWED = Topics(fleet=True), Topics(jobs=frozenset({JOB}))
RUN = run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)


def fields(news: News, job: str = JOB) -> dict[str, Any]:
    """The changed fields of a job."""
    changed = {change.job: change.fields for change in news.changes}
    return {name: json.loads(value) for name, value in changed.get(job, {}).items()}


def evaluated(service: Service, clock: HandClock, seconds: float = 1.0) -> None:
    clock.advance(seconds)
    service.evaluate()


def test_figures_wait_and_a_new_incident_does_not(service: Service, clock: HandClock) -> None:
    service.receive(body(RUN[:4]))
    feed = Feed(service)
    evaluated(service, clock)
    assert {"state", "step", "slos", "pace"} <= fields(feed.read(FLEET)).keys()
    evaluated(service, clock)
    assert not feed.read(FLEET).changes, "nothing new"
    service.receive(body(RUN[4:5]))
    evaluated(service, clock)
    assert not feed.read(FLEET).changes, "only figures moved"
    evaluated(service, clock, QUIET_SECONDS)
    assert fields(feed.read(FLEET))["step"] == 24
    service.receive(body(RUN[5:]))
    evaluated(service, clock)
    changed = fields(feed.read(FLEET))
    assert changed["open_incidents"] == 1 and changed["worst"]["kind"] == "straggler"
    assert changed["step"] == 59 and "world_size" not in changed


def test_a_live_document_has_the_points_since_the_one_before(
    service: Service, clock: HandClock
) -> None:
    service.receive(body(RUN[:2]))
    feed = Feed(service)
    evaluated(service, clock)
    first = json.loads(feed.read(FOLLOWED).pulses[JOB])
    assert [point[0] for point in first["points"]["loss"]] == [*range(10)]
    assert first["changed"] == [*VIEWS]
    assert feed.read(FOLLOWED).pulses == {}
    service.receive(body(RUN[2:3]))
    evaluated(service, clock)
    second = json.loads(feed.read(FOLLOWED).pulses[JOB])
    assert [point[0] for point in second["points"]["loss"]] == [*range(10, 15)]
    assert [point[0] for point in second["points"]["step_seconds"]][-1] >= 13
    assert second["version"] > first["version"] and second["step"] == 14
    assert set(second["changed"]) == {"matrix", "collectives"}


def test_a_quarantined_job_says_so_and_a_released_one_is_gone(
    service: Service, clock: HandClock
) -> None:
    service.receive(body(RUN[:4]))
    feed = Feed(service)
    evaluated(service, clock)
    feed.read(FLEET)
    clock.advance(1.0)
    service.state.quarantine(JOB, ValueError("a bad record"), service.now())
    assert fields(feed.read(FLEET))["state"] == "quarantined"
    service.state.release(JOB)
    assert feed.read(FLEET).gone == [JOB]
    assert feed.read(FLEET).gone == []


@pytest.mark.parametrize("is_fleet", [False, True])
def test_a_followed_job_that_does_not_exist_is_gone_once_until_it_reports(
    service: Service, clock: HandClock, *, is_fleet: bool
) -> None:
    feed, topics = Feed(service), FOLLOWED._replace(fleet=is_fleet)
    assert [feed.read(topics).gone for _ in range(3)] == [[JOB], [], []]
    service.receive(body(RUN[:2]))
    evaluated(service, clock)
    news = feed.read(topics)
    assert fields(news)["step"] == 9 and not news.gone
    service.state.release(JOB)
    assert [feed.read(topics).gone for _ in range(2)] == [[JOB], []]


@pytest.mark.parametrize("topics", [FLEET, FOLLOWED])
def test_a_job_of_another_collector_is_told_too(
    store: Store, clock: HandClock, topics: Topics
) -> None:
    holder, other = (Service(store, clock, Leases(store.engine, name)) for name in ("a", "b"))
    for service in (holder, other):
        service.shared_views.offer([LINE], ["line"])
        service.tenancy.tick()
    holder.tenancy.tick()
    holder.receive(body(RUN[:4]))
    evaluated(holder, clock)
    feed = Feed(other)
    news = feed.read(topics)
    assert fields(news)["step"] == 19
    if topics is FOLLOWED:
        document = json.loads(news.pulses[JOB])
        assert document["version"] is None and document["changed"] == [*VIEWS]
        assert document["points"] == {} and document["step"] == 19
    clock.advance(30.0)
    assert fields(feed.read(topics))["state"] == "stale"
    clock.advance(2.0)
    assert not feed.read(topics).changes, "only its age grew"
    clock.advance(QUIET_SECONDS)
    assert fields(feed.read(topics)).keys() == {"stale"}
