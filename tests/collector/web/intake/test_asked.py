"""The interval that an answer asks an agent for, whatever the request holds."""

from __future__ import annotations

import httpx
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.signals.pacing import FLUSH_HEADER
from tests.collector.made import body, run_segments

from .test_bodies import with_client


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 90, body(run_segments(2)), body(run_segments(1)) + b"rest"]
)
def test_each_answer_carries_the_asked_interval(service: Service, content: bytes) -> None:
    service.asked_pace.seconds = 4.0

    async def act(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/v1/segments", content=content)

    answer = with_client(service, act)
    assert (answer.status_code, answer.headers[FLUSH_HEADER]) == (200, "4")
