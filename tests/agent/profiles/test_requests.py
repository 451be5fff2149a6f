"""Requests of a collector: each is run once beside the loop, and its traces arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.profiles import requests
from stepwatch.agent.relay.answers import read_answer
from stepwatch.collector.web.intake import open_requests
from stepwatch.signals.profiles import MOST_REQUESTS, NodeRequest
from tests.agent.conftest import Moods, Rank, collector, give_up, round_of
from tests.agent.stalls.workers import serving
from tests.collector.web.test_profiles import trace_of
from tests.waiting import until

from . import test_asking

PATH = "/v1/jobs/job/profiles"
REQUEST = {"id": "ab12", "job": "job", "attempt": 0, "ranks": [2, 3], "first": 9, "steps": 3}
REQUEST |= {"seconds": 60.0}


class Node:
    """An agent with four ranks of a job, behind a collector that it has told of them."""

    def __init__(self, folder: Path, agent: Agent, url: str) -> None:
        self.agent = agent
        self.rings = folder / "rings"
        self.ranks = [Rank(self.rings, rank) for rank in range(4)]
        self.client = httpx.Client(base_url=url)
        for rank in self.ranks:
            rank.facts()
        self.flush()

    def flush(self) -> None:
        """Send the ranks' next steps, as one turn of the agent's loop does."""
        for rank in self.ranks:
            rank.steps(10)
        round_of(self.agent)
        self.agent.relay.drain(give_up)
        after_drain = self.agent.sender.after_drain
        assert after_drain is not None
        after_drain()

    def ask(self) -> Any:
        return self.client.post(PATH, json={"rank": 2, "peer": 3}).raise_for_status().json()

    def profile(self) -> Any:
        return self.client.get(PATH).json()["profiles"][0]

    def socket(self, rank: int) -> Path:
        return self.rings / "job" / "0" / f"{rank}.sock"

    def close(self) -> None:
        for rank in self.ranks:
            rank.ring.close()
        self.client.close()


@pytest.fixture
def moods() -> Moods:
    return []


@pytest.fixture
def make_node(
    tmp_path: Path,
    make_agent: Callable[..., Agent],
    moods: Moods,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Node]]:
    monkeypatch.setattr(open_requests, "FRESH_SECONDS", 0.0)
    with ExitStack() as ending:
        url = ending.enter_context(collector(tmp_path / "store.db", moods=moods))

        def make(**options: Any) -> Node:
            node = Node(tmp_path, make_agent(url, **options), url)
            ending.callback(node.close)
            return node

        yield make


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()


@pytest.fixture
def answering(node: Node) -> Iterator[list[test_asking.Rank]]:
    """The worker servers of ranks 2 and 3, of which rank 2 is slow."""
    ranks = [test_asking.Rank(trace_of(2, 9000)), test_asking.Rank(trace_of(3, 3000))]
    with serving(node.socket(2), ranks[0].answer), serving(node.socket(3), ranks[1].answer):
        yield ranks


def test_each_request_is_run_once_and_its_traces_arrive(
    node: Node, answering: list[test_asking.Rank]
) -> None:
    asked = node.ask()
    for _ in range(3):
        node.flush()
    until("the comparison", lambda: node.profile()["state"] != "asked")
    assert node.profile()["state"] == "compared", node.profile()
    assert [trace["rank"] for trace in node.profile()["traces"]] == [2, 3]
    for rank in answering:
        (first,) = [line for line in rank.requests if "name=" in line and "steps=" in line]
        assert f"name={asked['id']}&first={asked['first_step']}&steps=3" in first


def test_an_upload_is_tried_again_until_the_collector_takes_it(
    node: Node,
    answering: list[test_asking.Rank],
    moods: Moods,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "RETRY_SECONDS", 0.05)
    node.ask()
    node.flush()
    moods += [(503, {}, b""), (429, {}, b""), (503, {}, b"")]
    until("three refused uploads", lambda: not moods)
    until("the comparison", lambda: node.profile()["state"] == "compared")


def test_a_rank_of_another_attempt_is_a_reason(node: Node) -> None:
    node.ask()
    node.agent.profiles.begin([NodeRequest(node.profile()["id"], "job", 7, (2, 3), 9, 3, 60.0)])
    until("the reason", lambda: node.profile()["state"] == "failed")
    sentence = node.profile()["sentence"]
    assert sentence == "rank 2: the agent of its node sees no process of this rank"


def test_a_silent_rank_delays_neither_the_loop_nor_the_end(node: Node) -> None:
    with serving(node.socket(2), lambda _request, _out: time.sleep(3.0)):
        node.ask()
        began = time.monotonic()
        node.flush()
        node.agent.stop()
        node.agent.close()
        assert time.monotonic() - began < 2.0


def test_an_agent_may_decline(make_node: Callable[..., Node]) -> None:
    node = make_node(profiles=False)
    rank = test_asking.Rank()
    with serving(node.socket(2), rank.answer):
        node.ask()
        node.flush()
        assert node.agent.relay.profiles
        time.sleep(0.3)
        assert rank.requests == []


def answer_with(profiles: Any) -> tuple[NodeRequest, ...]:
    return read_answer(
        json.dumps({"verdicts": [], "formats": [1], "profiles": profiles}).encode()
    ).profiles


def test_an_earlier_collector_requests_nothing() -> None:
    assert read_answer(b'{"verdicts": [], "formats": [1]}').profiles == ()


def test_requests_are_bounded() -> None:
    (request,) = answer_with([REQUEST])
    assert request == NodeRequest("ab12", "job", 0, (2, 3), 9, 3, 60.0)
    assert len(answer_with([REQUEST] * 100)) == MOST_REQUESTS


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../x"},
        {"id": 3},
        {"job": "../etc"},
        {"job": None},
        {"attempt": -1},
        {"attempt": 1.0},
        {"ranks": []},
        {"ranks": [1, 2, 3]},
        {"ranks": ["1"]},
        {"ranks": 5},
        {"first": 2**40},
        {"steps": 0},
        {"steps": 11},
        {"steps": True},
        {"seconds": 0},
        {"seconds": 1e9},
        {"seconds": "60"},
        {"seconds": None},
    ],
)
def test_an_invalid_request_is_left_out(change: dict[str, Any]) -> None:
    assert answer_with([{**REQUEST, **change}, REQUEST]) == answer_with([REQUEST])


@pytest.mark.parametrize("profiles", [None, {}, "x", [None], [[]], 7])
def test_other_values_request_nothing(profiles: Any) -> None:
    assert answer_with(profiles) == ()
