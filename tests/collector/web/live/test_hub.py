"""When the jobs are read, and what open streams get if that fails or events are too many."""

from __future__ import annotations

import asyncio
import logging

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.live import hub as hubs
from stepwatch.collector.web.live.hub import Hub, Subscription
from stepwatch.collector.web.live.topics import Topics
from tests.collector.made import JOB, HandClock, body, run_segments

FLEET, FOLLOWED = Topics(fleet=True), Topics(jobs=frozenset({JOB}))
PATIENCE_SECONDS = 60.0


async def next_text(hub: Hub, subscription: Subscription) -> bytes:
    """Wait for a stream's next events."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            await subscription.woken.wait()
            subscription.woken.clear()
            text = hub.text_for(subscription)
            if text or subscription.is_over:
                return text


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "READING_SECONDS", 0.01)


def test_streams_share_one_reading_and_none_is_left_without_streams(
    service: Service, clock: HandClock
) -> None:
    service.receive(body(run_segments(20)))
    service.evaluate()

    async def act() -> None:
        hub = Hub(service)
        first, second = hub.enter(FLEET), hub.enter(FLEET)
        texts = [await next_text(hub, stream) for stream in (first, second)]
        assert texts[0] is texts[1] and JOB.encode() in texts[0]
        service.receive(body(run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)[4:]))
        clock.advance(2.0)
        service.evaluate()  # it wakes the hub
        assert b'"open_incidents": 1' in await next_text(hub, first)
        idle = service.when_evaluated
        for stream in (first, second):
            hub.leave(stream)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while service.when_evaluated is idle:
                await asyncio.sleep(0.01)
        third = hub.enter(FLEET, hub.log.position)
        clock.advance(20.0)
        assert JOB.encode() in await next_text(hub, third), "its figures changed meanwhile"
        hub.leave(third)

    asyncio.run(act())


def test_too_many_events_begin_again(
    service: Service, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.receive(body(run_segments(20)))
    service.evaluate()
    monkeypatch.setattr(hubs, "MOST_JOBS", 0)

    async def act() -> None:
        hub = Hub(service)
        stream = hub.enter(FOLLOWED)
        assert b'"world_size": 4' in await next_text(hub, stream)
        cursor = hub.log.cursor
        service.when_evaluated()
        assert b'"world_size": 4' in await next_text(hub, stream), "all fields again"
        assert hub.log.position_of(cursor) is None
        hub.leave(stream)

    asyncio.run(act())


def test_streams_end_if_the_jobs_cannot_be_read(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise LookupError("damaged")

    async def act() -> None:
        hub = Hub(service)
        with monkeypatch.context() as patch:
            patch.setattr(service, "latest", broken)
            stream = hub.enter(FLEET)
            assert await next_text(hub, stream) == b"" and stream.is_over
            hub.leave(stream)
        service.receive(body(run_segments(20)))
        another = hub.enter(FLEET)
        assert JOB.encode() in await next_text(hub, another)
        hub.leave(another)

    with caplog.at_level(logging.ERROR):
        asyncio.run(act())
    assert "the jobs cannot be read" in caplog.text


def test_no_more_streams_than_there_is_room_for(service: Service) -> None:
    async def act() -> None:
        hub = Hub(service, most=1)
        assert not hub.refuses()
        stream = hub.enter(FLEET)
        assert hub.refuses() and hub.refuses()
        refused = {sample.value for family in hub.collect() for sample in family.samples}
        assert refused == {1.0, 2.0}
        hub.leave(stream)
        assert not hub.refuses()
        hub.close()
        assert hub.refuses()

    asyncio.run(act())
