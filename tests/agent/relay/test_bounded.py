"""A compressed answer costs a client of a collector no memory."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.relay import problems
from stepwatch.agent.relay.client import connect
from stepwatch.signals.access import Access
from stepwatch.signals.http import AnswerError
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
        with pytest.raises(AnswerError, match="the answer is compressed") as raised:
            client.get("/")
        with pytest.raises(AnswerError):
            client.request("POST", "/v1/segments")
        assert problems.of_error(raised.value, client.address).reason == problems.ANSWER


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
