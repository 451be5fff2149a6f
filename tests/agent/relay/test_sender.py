"""The sending thread asks for formats once in a while, and only while segments are held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stepwatch.agent.app import Agent
from stepwatch.agent.relay.sender import ASK_SECONDS, Sender
from stepwatch.signals.clock import SystemClock
from tests.agent.conftest import Rank, give_up, round_of

from .stub import Collector, serve_url


class TurnedClock(SystemClock):
    """A clock whose hands the test turns."""

    seconds = 100.0

    def monotonic_ns(self) -> int:
        return round(self.seconds * 10**9)


def test_formats_are_asked_for_once_in_a_while(
    tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    rank, collector, clock = Rank(tmp_path / "rings"), Collector(), TurnedClock()
    collector.word = "unsupported"
    with serve_url(collector) as url:
        agent = make_agent(url)
        sender = Sender(agent.relay, clock)

        def requests_after(seconds: float) -> int:
            requests_before = collector.requests
            clock.seconds += seconds
            sender._ask_formats()
            return collector.requests - requests_before

        assert requests_after(2 * ASK_SECONDS) == 0, "nothing is held"
        rank.steps(5)
        round_of(agent)
        agent.relay.drain(give_up)
        assert agent.spool.held_segments == 1
        assert [requests_after(ASK_SECONDS / 4) for _ in range(9)] == [0, 0, 0, 1, 0, 0, 0, 1, 0]
        rank.steps(5)
        round_of(agent)
        assert requests_after(2 * ASK_SECONDS) == 0, "a segment waits, whose answer will tell"
    rank.ring.close()
