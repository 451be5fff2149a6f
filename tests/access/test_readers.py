"""Readers are bounded, and however many ask, agents are served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.response import Silence
from stepwatch.collector.web.access.readers import MOST_AT_ONCE
from stepwatch.collector.web.api import make_api


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    store = Store.sqlite(tmp_path / "store.db")
    yield Service(store)
    store.close()


class BlockedStore:
    """Answers of a store that wait for `release`."""

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.release = threading.Event()
        monkeypatch.setattr(service.store.silences, "between", self._wait)

    def _wait(self, *_: float) -> list[Silence]:
        self.count += 1
        assert self.release.wait(60.0)
        return []


async def half(begun: list[bool], release: asyncio.Event) -> AsyncIterator[bytes]:
    """A body that ends after `release` is set."""
    yield b"{"
    begun.append(True)
    await release.wait()
    yield b"}"


async def other_statuses(client: httpx.AsyncClient) -> dict[str, int]:
    """Return the statuses of other clients' requests."""
    paths = ("/v1/jobs", "/metrics", "/healthz", "/")
    statuses = {path: (await client.get(path)).status_code for path in paths}
    statuses["/v1/segments"] = (await client.post("/v1/segments", content=b"")).status_code
    return statuses


async def while_answered(service: Service, blocked: BlockedStore, count: int) -> dict[str, int]:
    """Return other clients' statuses while `count` readers wait for answers, and after."""
    transport = httpx.ASGITransport(app=make_api(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
        path = "/v1/silences?from=0&until=1"
        waiting = [asyncio.create_task(client.get(path)) for _ in range(count)]
        while blocked.count < count:
            await asyncio.sleep(0.01)
        statuses = await other_statuses(client)
        blocked.release.set()
        await asyncio.gather(*waiting)
        statuses["after"] = (await client.get("/v1/jobs")).status_code
    return statuses


async def while_sent(service: Service, count: int) -> dict[str, int]:
    """Return other clients' statuses while `count` clients have begun a request without finishing
    it."""
    release, begun = asyncio.Event(), list[bool]()
    transport = httpx.ASGITransport(app=make_api(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
        waiting = [
            asyncio.create_task(client.post("/v1/silences", content=half(begun, release)))
            for _ in range(count)
        ]
        while len(begun) < count:
            await asyncio.sleep(0.01)
        statuses = await other_statuses(client)
        release.set()
        await asyncio.gather(*waiting)
    return statuses


def test_who_comes_when_all_places_are_taken_is_asked_to_come_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, full = BlockedStore(service, monkeypatch), MOST_AT_ONCE
    assert set(asyncio.run(while_answered(service, few, full - 1)).values()) == {200}
    statuses = asyncio.run(while_answered(service, BlockedStore(service, monkeypatch), full))
    assert statuses.pop("/v1/jobs") == 429
    assert set(statuses.values()) == {200}, statuses


def test_bodies_that_do_not_end_take_no_place(service: Service) -> None:
    assert set(asyncio.run(while_sent(service, 2 * MOST_AT_ONCE)).values()) == {200}


def test_a_body_that_does_not_end_is_408(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwatch.collector.web.access.readers.BODY_SECONDS", 0.2)

    async def slow() -> int:
        transport = httpx.ASGITransport(app=make_api(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            sent = half([], asyncio.Event())
            return (await client.post("/v1/silences", content=sent)).status_code

    assert asyncio.run(slow()) == 408
