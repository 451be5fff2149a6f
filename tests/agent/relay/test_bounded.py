"""A compressed or endless answer costs a client of httpx no more than its bound."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.relay import problems
from stepwatch.agent.relay.answers import read_body
from stepwatch.agent.relay.bounded import limit_answers
from stepwatch.agent.relay.client import connect
from stepwatch.signals.access import Access
from tests.agent.conftest import Rank, round_of, serving

BOMB = gzip.compress(gzip.compress(bytes(16 << 20)))
"""A few hundred bytes that hold 16 MiB, packed twice."""


def packed(coding: bytes) -> Any:
    """A server that answers with the bomb, and remembers what was asked for."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-encoding", coding)]
        assert (b"accept-encoding", b"identity") in scope["headers"], "none is asked for"
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BOMB})

    return answer


@pytest.mark.parametrize("coding", [b"gzip, gzip", b"br", b"zstd", b"deflate", b"x-own"])
def test_a_compressed_answer_is_refused_by_every_client_of_a_collector(coding: bytes) -> None:
    with serving(packed(coding)) as url, connect(url, Access()) as client:
        with pytest.raises(httpx.DecodingError, match="the answer is compressed") as raised:
            client.get("/")
        with pytest.raises(httpx.DecodingError):
            client.request("POST", "/v1/segments")
        assert problems.of_error(raised.value, client.base_url).reason == problems.ANSWER


def test_the_relay_decompresses_nothing_and_loses_nothing(
    rank: Rank, make_agent: Callable[..., Agent]
) -> None:
    with serving(packed(b"gzip, gzip")) as url:
        agent = make_agent(url)
        rank.steps(10)
        round_of(agent)
        assert agent.relay.send_once() > 0
        assert agent.relay.problem is not None and "is compressed" in agent.relay.problem.text
        assert len(agent.spool) == 1


def test_a_body_is_refused_where_the_client_is_another() -> None:
    headers = {"content-encoding": "gzip"}
    response = httpx.Response(200, headers=headers, stream=httpx.ByteStream(BOMB))
    with pytest.raises(httpx.DecodingError, match=r"compressed \(gzip\)"):
        read_body(response)


def test_an_answer_beyond_the_bound_is_not_held() -> None:
    sent: list[int] = []

    def endless() -> Iterator[bytes]:
        while True:
            sent.append(1)
            yield bytes(1000)

    answers = httpx.MockTransport(lambda _: httpx.Response(200, content=endless()))
    with (
        limit_answers(httpx.Client(transport=answers, base_url="http://peer"), 5000) as client,
        pytest.raises(httpx.DecodingError, match="longer than 5000 bytes"),
    ):
        client.get("/")
    assert len(sent) == 6


def test_an_answer_within_the_bound_is_as_it_was() -> None:
    answers = httpx.MockTransport(lambda _: httpx.Response(200, json={"a": 1}))
    with limit_answers(httpx.Client(transport=answers, base_url="http://peer"), 7) as client:
        assert client.get("/").json() == {"a": 1}
