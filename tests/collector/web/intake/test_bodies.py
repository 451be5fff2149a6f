"""Bodies that arrive slowly, or are many, keep no other segment out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.intake import bodies
from stepwatch.collector.web.intake.segments import MOST_STORED_AT_ONCE

Act = Callable[[httpx.AsyncClient], Awaitable[Any]]
MANY = 3 * MOST_STORED_AT_ONCE


def with_client(service: Service, act: Act) -> Any:
    """What `act` returns, over the real API."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app=make_api(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            return await act(client)

    return asyncio.run(run())


class Unfinished:
    """Requests of which `first` has arrived, and the rest comes with `release`."""

    def __init__(self, client: httpx.AsyncClient, count: int, first: bytes) -> None:
        self.first = first
        self.release = asyncio.Event()
        self._client, self._begun, self._count = client, 0, count
        self.tasks = [asyncio.create_task(self._send()) for _ in range(count)]

    async def begun(self) -> None:
        """Wait until the collector has read the first part of each."""
        while self._begun < self._count:
            await asyncio.sleep(0.01)

    async def statuses(self) -> list[int]:
        """What each was answered."""
        return [(await task).status_code for task in self.tasks]

    async def _send(self) -> httpx.Response:
        return await self._client.post("/v1/segments", content=self._parts())

    async def _parts(self) -> AsyncIterator[bytes]:
        yield self.first
        self._begun += 1
        await self.release.wait()
        yield b"y"


def test_bodies_that_have_not_arrived_take_no_turn(service: Service) -> None:
    async def act(client: httpx.AsyncClient) -> tuple[int, list[int]]:
        slow = Unfinished(client, MANY, b"x")
        await slow.begun()
        late_answer = await client.post("/v1/segments", content=b"z")
        slow.release.set()
        return late_answer.status_code, await slow.statuses()

    assert with_client(service, act) == (200, [200] * MANY)


@pytest.mark.parametrize("limit", ["FIRST_SECONDS", "BODY_SECONDS"])
def test_a_body_that_does_not_end_is_408(
    service: Service, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(bodies, limit, 0.2)

    async def act(client: httpx.AsyncClient) -> list[int]:
        return await Unfinished(client, 3, b"x").statuses()

    assert with_client(service, act) == [408] * 3


def test_where_bodies_are_too_large_together_the_largest_gives_way(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MOST_BYTES_HELD", 10_000)

    async def act(client: httpx.AsyncClient) -> list[list[int]]:
        large = Unfinished(client, 1, b"x" * 6000)
        await large.begun()
        small = Unfinished(client, 5, b"x" * 1000)
        await small.begun()
        late_answer = await client.post("/v1/segments", content=b"z")
        small.release.set()
        return [await large.statuses(), await small.statuses(), [late_answer.status_code]]

    assert with_client(service, act) == [[429], [200] * 5, [200]]


def test_a_body_that_says_it_is_too_large_is_not_read(service: Service) -> None:
    async def act(client: httpx.AsyncClient) -> int:
        unread = Unfinished(client, 0, b"x")
        headers = {"content-length": str(65 << 20)}
        answer = await client.post("/v1/segments", content=unread._parts(), headers=headers)
        return answer.status_code

    assert with_client(service, act) == 413


def test_requests_that_get_no_turn_are_asked_to_come_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwatch.collector.web.intake.turns.TURN_SECONDS", 0.2)
    released, stored = threading.Event(), list[bytes]()

    def slow(body: bytes, _source: str) -> list[Any]:
        stored.append(body)
        assert released.wait(60.0)
        return []

    monkeypatch.setattr(service, "receive", slow)

    async def act(client: httpx.AsyncClient) -> tuple[httpx.Response, set[int]]:
        first = [
            asyncio.create_task(client.post("/v1/segments", content=b"x"))
            for _ in range(MOST_STORED_AT_ONCE)
        ]
        while len(stored) < MOST_STORED_AT_ONCE and not any(task.done() for task in first):
            await asyncio.sleep(0.01)
        late_answer = await client.post("/v1/segments", content=b"z")
        released.set()
        metrics = (await client.get("/metrics")).text
        assert 'stepwatch_collector_refused_requests_total{reason="overload"} 1.0' in metrics
        return late_answer, {(await task).status_code for task in first}

    late_answer, first_statuses = with_client(service, act)
    assert (late_answer.status_code, late_answer.headers["retry-after"], first_statuses) == (
        429,
        "1",
        {200},
    )
    assert b"z" not in stored


def test_readers_of_metrics_take_no_thread_of_segments(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, reads = threading.Event(), list[bool]()

    def slow(registry: Any) -> bytes:
        reads.append(True)
        assert released.wait(60.0)
        return b""

    monkeypatch.setattr("stepwatch.collector.web.api.generate_latest", slow)

    async def act(client: httpx.AsyncClient) -> int:
        readers = [asyncio.create_task(client.get("/metrics")) for _ in range(80)]
        while len(reads) < 40:
            await asyncio.sleep(0.01)
        try:
            late_answer = await asyncio.wait_for(client.post("/v1/segments", content=b"z"), 30.0)
        finally:
            released.set()
            await asyncio.gather(*readers)
        return late_answer.status_code

    assert with_client(service, act) == 200
