"""A segment that makes every request fail holds up none behind it; an outage costs nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.signals import wire
from tests.agent.conftest import Rank, round_of

from .stub import Collector, serve_url

MakeAgent = Callable[..., Agent]


def keep_trying(_seconds: float) -> bool:
    return False


def fill(agent: Agent, rank: Rank, segments: int) -> None:
    for _ in range(segments):
        rank.steps(5)
        round_of(agent)


@pytest.mark.parametrize("status", [401, 421, 429])
def test_no_segment_is_held_for_what_is_no_fault_of_its_own(
    tmp_path: Path, make_agent: MakeAgent, status: int
) -> None:
    """Each time that the oldest is sent the collector is busy, or is asked in a wrong way."""
    rank, collector = Rank(tmp_path / "rings", capacity=4096), Collector()
    collector.status = status
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 5)
        oldest = agent.spool.oldest(1)[0][1]
        collector.fails = lambda body: oldest in body
        for _ in range(40):
            agent.relay.send_once()
        assert agent.spool.held_segments == 0
        collector.fails = lambda body: False
        agent.relay.drain(keep_trying)
        assert collector.steps() == list(range(1, rank.step + 1))
    rank.ring.close()


@pytest.mark.parametrize(("count", "bad"), [(20, 0), (20, 7), (20, 19), (2, 0), (100, 70)])
def test_one_segment_on_which_the_collector_fails_holds_up_no_other(
    tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture, count: int, bad: int
) -> None:
    rank, collector = Rank(tmp_path / "rings", capacity=4096), Collector()
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, count)
        poison = agent.spool.oldest(200)[bad][1]
        collector.fails = lambda body: poison in body
        tries: list[float] = []

        def wait(seconds: float) -> bool:
            tries.append(seconds)
            if bad == count - 1 and len(tries) == 12:  # there must be one behind it
                fill(agent, rank, 1)
            return len(tries) > 40

        agent.relay.drain(wait)
        assert (len(agent.spool), agent.spool.held_segments) == (0, 1)
        expected = set(range(1, rank.step + 1)) - set(range(5 * bad + 1, 5 * bad + 6))
        assert collector.steps() == sorted(expected), "the others, in order and each once"
        assert "the database refuses it" in caplog.text
        collector.fails = lambda body: False
        agent.relay.retry_failed()
        agent.relay.drain(keep_trying)
        assert agent.spool.held_segments == 0 and poison in collector.taken
        assert sorted(collector.steps()) == list(range(1, rank.step + 1))
    rank.ring.close()


def test_an_outage_holds_nothing(rank: Rank, make_agent: MakeAgent) -> None:
    collector = Collector()
    chance = random.Random(7)
    failures = iter([True] * 25 + [chance.random() < 0.5 for _ in range(10)] + [False] * 100)
    collector.fails = lambda body: next(failures)
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 10)
        agent.relay.drain(keep_trying)
        assert (len(agent.spool), agent.spool.held_segments) == (0, 0)
    assert set(collector.steps()) == set(range(1, 51))
    assert all(wire.format_of(data) == wire.WRITTEN_FORMAT for data in collector.taken)


def test_requests_shrink_while_they_fail_and_grow_again(rank: Rank, make_agent: MakeAgent) -> None:
    collector = Collector()
    sizes: list[int] = []

    def fails(body: bytes) -> bool:
        sizes.append(len(list(wire.split(body))))
        return sizes[-1] > 3  # as a proxy that limits the body

    collector.fails = fails
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 12)
        agent.relay.drain(keep_trying)
        assert (len(agent.spool), agent.spool.held_segments) == (0, 0)
    assert sizes[:3] == [12, 6, 3] and collector.steps() == list(range(1, 61))


@pytest.mark.parametrize("outage", [6, 9, 25], ids="{} requests fail".format)
def test_after_an_outage_what_waited_is_sent_at_once(
    rank: Rank, make_agent: MakeAgent, outage: int
) -> None:
    collector = Collector()
    sizes: list[int] = []

    def fails(body: bytes) -> bool:
        sizes.append(len(list(wire.split(body))))
        return len(sizes) <= outage

    collector.fails = fails
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 40)
        agent.relay.drain(keep_trying)
        assert (len(agent.spool), agent.spool.held_segments) == (0, 0)
    assert len(sizes) <= outage + 3 and sizes[-1] >= 38, "one or two alone, then all others"
    assert set(collector.steps()) == set(range(1, 201))
