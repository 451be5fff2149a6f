"""An agent flushes less often while the collector asks for it, within bounds, then as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.app import Agent
from stepwatch.agent.options import AgentOptions
from stepwatch.agent.pace import FlushPace
from stepwatch.collector.runtime.pace import LATE_ROUNDS
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.trackers.nodes.agents import Agents
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals.pacing import FLUSH_HEADER, MOST_ASKED_SECONDS

from .conftest import Moods, Rank, collector, give_up, once, round_of, serving, stored_steps

MakeAgent = Callable[..., Agent]


def pace_of(seconds: float) -> FlushPace:
    options = AgentOptions(Path("rings"), Path("spool"), "", "n1", flush_seconds=seconds)
    return FlushPace(options.polls_per_flush, options.poll_seconds)


def followed(pace: FlushPace, *requested: float) -> list[float]:
    """The interval after each of these was asked."""
    paces = []
    for seconds in requested:
        pace.follow(seconds)
        paces.append(pace.seconds)
    return paces


def test_the_interval_grows_step_by_step_and_falls_at_once() -> None:
    assert followed(pace_of(1.0), 0, 5, 5, 5, 5, 0) == [1.0, 2.0, 4.0, 5.0, 5.0, 1.0]


def test_an_agent_that_flushes_rarely_flushes_as_configured() -> None:
    assert followed(pace_of(30.0), 0, 5, 1e9) == [30.0, 30.0, 30.0]


def due_polls(pace: FlushPace, alarmed: set[int], polls: int) -> list[int]:
    """The polls that flush, while a rank raises an alarm at some polls."""
    flushed, since = [], 0
    for poll in range(1, polls + 1):
        since += 1
        if pace.is_due(since, lambda poll=poll: poll in alarmed):  # type: ignore[misc]
            flushed.append(poll)
            since = 0
    return flushed


def test_an_alarm_brings_a_flush_forward_to_the_configured_interval() -> None:
    pace = pace_of(1.0)
    followed(pace, 4, 4)
    assert due_polls(pace, set(), 40) == [16, 32]
    assert due_polls(pace, {2, 3, 4, 5}, 40) == [4, 20, 36], "none within the configured interval"
    assert due_polls(pace, set(range(41)), 40) == [4, 20, 24, 40], "one between two regular ones"
    followed(pace, 0)
    assert due_polls(pace, set(range(41)), 12) == [4, 8, 12] and not pace.is_early


@given(
    own_seconds=st.floats(0.1, 60),
    requested=st.lists(st.floats(min_value=0, allow_infinity=False), max_size=9),
)
def test_no_wish_leads_beyond_the_bounds(own_seconds: float, requested: list[float]) -> None:
    pace = pace_of(own_seconds)
    usual = previous_s = pace.seconds
    for now in followed(pace, *requested):
        assert usual <= now <= max(usual, MOST_ASKED_SECONDS)
        assert now <= 2 * previous_s, "three intervals of the one before make a node stale"
        previous_s = now


def test_a_collector_that_falls_behind_is_sent_fewer_segments_until_it_keeps_up(
    tmp_path: Path, rank: Rank, make_agent: MakeAgent
) -> None:
    place = tmp_path / "store.db"
    store = Store.sqlite(place)
    service = Service(store)
    with serving(make_api(service)) as url:
        agent = make_agent(url)

        def flushed() -> float:
            """Flush and send once; the interval that the segment reports."""
            rank.steps(1)
            round_of(agent)
            agent.relay.drain(give_up)
            return agent.pace.seconds

        assert flushed() == 1.0
        for _ in range(2 * LATE_ROUNDS):
            service.asked_pace.evaluated(seconds=3.0)
        assert [flushed() for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
        job_state = service.job("job")
        assert job_state is not None
        assert job_state[0].current.tracker(Agents).flush_seconds("n1") == 4.0
        while service.asked_pace.seconds:
            service.asked_pace.evaluated(seconds=0.1)
        assert [flushed() for _ in range(2)] == [4.0, 1.0]
    store.close()
    assert stored_steps(place) == once(1, 7)


def test_an_agent_with_an_alarm_is_asked_for_nothing(
    tmp_path: Path, rank: Rank, make_agent: MakeAgent
) -> None:
    store = Store.sqlite(tmp_path / "store.db")
    service = Service(store)
    service.asked_pace.seconds = 10.0
    with serving(make_api(service)) as url:
        agent = make_agent(url)

        def asked() -> float:
            rank.steps(1)
            round_of(agent)
            agent.relay.drain(give_up)
            return agent.relay.asked_seconds

        assert [asked() for _ in range(3)] == [10.0] * 3
        assert agent.pace.is_due(agent.pace.polls - 1, lambda: True)
        assert asked() == 0.0
        assert agent.pace.is_due(agent.pace.polls, lambda: False)
        assert [asked(), agent.pace.seconds] == [0.0, 1.0], "for as long as a verdict takes"
    store.close()


def test_a_refusal_asks_for_fewer_segments_too(
    tmp_path: Path, rank: Rank, make_agent: MakeAgent
) -> None:
    moods: Moods = [(429, {FLUSH_HEADER: "8", "retry-after": "8"}, b"busy")]
    with collector(tmp_path / "store.db", moods=moods) as url:
        agent = make_agent(url)
        rank.steps(1)
        round_of(agent)
        assert 8.0 <= agent.relay.send_once() <= 12.0
        assert agent.relay.asked_seconds == 8.0
        assert agent.relay.send_once() == 0.0


@pytest.mark.parametrize("value", ["", "soon", "nan", "-3", "inf", "1e400", "0"])
def test_what_is_no_time_asks_for_nothing(
    tmp_path: Path, rank: Rank, make_agent: MakeAgent, value: str
) -> None:
    accepted_body = b'{"verdicts": [{"verdict": "accepted"}], "formats": [1]}'
    moods: Moods = [(200, {FLUSH_HEADER: value}, accepted_body)]
    with collector(tmp_path / "store.db", moods=moods) as url:
        agent = make_agent(url)
        rank.steps(1)
        round_of(agent)
        agent.relay.drain(give_up)
        assert (len(agent.spool), agent.relay.asked_seconds) == (0, 0.0)
