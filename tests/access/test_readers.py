"""Readers are bounded, and however many ask, agents are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.access.readers import MOST_AT_ONCE
from stepwatch.collector.web.api import make_api


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    store = Store.sqlite(tmp_path / "store.db")
    yield Service(store)
    store.close()


async def statuses(service: Service, count: int) -> dict[str, int]:
    """What others get while `count` clients have begun a request and do not finish it."""
    release, begun = asyncio.Event(), []

    async def half() -> AsyncIterator[bytes]:
        yield b"{"
        begun.append(True)
        await release.wait()
        yield b"}"

    transport = httpx.ASGITransport(app=make_api(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
        waiting = [
            asyncio.create_task(client.post("/v1/silences", content=half())) for _ in range(count)
        ]
        while len(begun) < count:
            await asyncio.sleep(0.01)
        paths = ("/v1/jobs", "/metrics", "/healthz", "/")
        found = {path: (await client.get(path)).status_code for path in paths}
        found["/v1/segments"] = (await client.post("/v1/segments", content=b"")).status_code
        release.set()
        await asyncio.gather(*waiting)
        found["after"] = (await client.get("/v1/jobs")).status_code
    return found


def test_who_comes_when_all_places_are_taken_is_asked_to_come_again(service: Service) -> None:
    assert set(asyncio.run(statuses(service, MOST_AT_ONCE - 1)).values()) == {200}
    full = asyncio.run(statuses(service, MOST_AT_ONCE))
    assert full.pop("/v1/jobs") == 429
    assert set(full.values()) == {200}, full
