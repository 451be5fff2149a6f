"""Agents and collectors of different versions: what is sent is read, what is not read is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from stepwatch.agent.app import Agent
from stepwatch.signals import wire
from stepwatch.signals.wire import frame
from tests.agent.conftest import Rank, give_up, round_of

from .stub import Collector, serve_url

MakeAgent = Callable[..., Agent]
LATER = 9


def later(data: bytes, number: int = LATER) -> bytes:
    """The segment as a later version would write it: another magic, a payload nobody here reads."""
    _, header, _, raw_size = frame.open_frame(data)
    return frame.close_frame(number, header, b"from the future", raw_size)


def fill(agent: Agent, rank: Rank, segments: int) -> None:
    for _ in range(segments):
        rank.steps(5)
        round_of(agent)


def files(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in (folder / "spool").glob(f"*.{suffix}"))


@pytest.mark.parametrize("word", ["", "accepted"])
@pytest.mark.parametrize("segments", [1, 3])
def test_a_collector_that_reads_other_formats_gets_all_once_it_reads_this_one(
    rank: Rank, make_agent: MakeAgent, segments: int, word: str
) -> None:
    collector = Collector(LATER)
    collector.word = word  # whatever it says of bytes that it cannot read
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, segments)
        agent.relay.drain(give_up)
        assert (len(agent.spool), agent.spool.held_segments, agent.relay.refused) == (
            0,
            segments,
            0,
        )
        collector.word, collector.formats = "", {wire.WRITTEN_FORMAT, LATER}
        agent.relay.ask_formats()
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 5 * segments + 1))
        assert agent.spool.held_segments == 0


def test_a_collector_rolled_back_in_mid_stream_loses_nothing(
    rank: Rank, make_agent: MakeAgent
) -> None:
    collector = Collector()
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        collector.formats = {LATER}
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 11)) and agent.spool.held_segments == 2
        collector.formats = {wire.WRITTEN_FORMAT}
        fill(agent, rank, 1)
        agent.relay.ask_formats()
        agent.relay.drain(give_up)
        assert sorted(collector.steps()) == list(range(1, 26)), "each once"
        assert agent.relay.refused == 0


@pytest.mark.parametrize("word", ["unsupported", "postponed"])
def test_a_segment_that_cannot_be_read_is_held_and_blocks_nothing(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    collector = Collector()
    collector.word = word
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        assert (len(agent.spool), agent.spool.held_segments, agent.relay.failures) == (0, 3, 0)
        assert len(files(tmp_path, "held")) == 3 and agent.spool.held_bytes > 0
        assert caplog.text.count("cannot read segment") == 1
        page = generate_latest(agent.registry).decode()
        assert 'stepwatch_agent_held_segments{node="n1"} 3.0' in page
        collector.word = ""
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(16, 21)), "held ones are not sent again yet"
        collector.formats |= {2}
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert agent.spool.held_segments == 0
        assert sorted(collector.steps()) == list(range(1, 26))


def test_a_node_without_jobs_asks_for_the_formats_while_it_holds_segments(
    rank: Rank, make_agent: MakeAgent
) -> None:
    collector = Collector()
    collector.word = "unsupported"
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        agent.relay.ask_formats()
        agent.relay.retry_failed()
        assert (len(agent.spool), agent.spool.held_segments) == (0, 2), "nothing new is announced"
        collector.word, collector.formats = "", {1, 2}
        agent.relay.ask_formats()
        assert (len(agent.spool), agent.spool.held_segments) == (2, 0)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 11))
    agent.relay.ask_formats()  # nobody answers


def test_a_held_file_that_somebody_deleted_keeps_back_no_other(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    collector = Collector(LATER)
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        assert agent.spool.held_segments == 3
        min((tmp_path / "spool").glob("*.held")).unlink()
    agent.spool.release([3])
    assert (len(agent.spool), agent.spool.held_segments, agent.spool.dropped) == (2, 0, 1)


def test_held_segments_are_tried_again_after_a_restart(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    collector = Collector()
    collector.word = "unsupported"
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        agent.close()
        collector.word = ""
        agent = make_agent(url)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert (agent.spool.held_segments, files(tmp_path, "held")) == (0, [])
        assert collector.steps() == list(range(1, 21)), "in order, each once"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_segment_that_was_held_leads_no_cursor_back(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, restarts: bool
) -> None:
    collector = Collector()
    collector.word = "unsupported"
    with serve_url(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        collector.word = ""
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(16, 21)), "newer ones went before"
        if restarts:
            agent.close()
            agent = make_agent(url)
        else:
            collector.formats |= {2}
            agent.relay.ask_formats()
        agent.relay.drain(give_up)
        assert agent.spool.held_segments == 0
        agent.close()
        agent = make_agent(url)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert sorted(collector.steps()) == list(range(1, 26)), "each once"


def test_spool_files_of_a_later_version_are_held_until_a_collector_reads_them(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector()
    agent = make_agent()
    fill(agent, rank, 3)
    agent.close()
    future = sorted((tmp_path / "spool").glob("*.seg"))[1]
    data = later(future.read_bytes())
    future.write_bytes(data)
    with serve_url(collector) as url:
        agent = make_agent(url)
        assert (len(agent.spool), agent.spool.held_segments, agent.spool.dropped) == (2, 1, 0)
        agent.relay.drain(give_up)
        assert collector.steps() == [*range(1, 6), *range(11, 16)]
        assert future.with_suffix(".held").read_bytes() == data
        assert "segment format 9" in caplog.text and "damaged" not in caplog.text
        collector.formats |= {LATER}
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert data in collector.taken and agent.spool.held_segments == 0


def test_a_full_spool_gives_up_the_oldest_segments_that_nobody_here_can_read(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    rank = Rank(tmp_path / "rings", capacity=4096)
    agent = make_agent()
    fill(agent, rank, 3)
    agent.close()
    for path in (tmp_path / "spool").glob("*.seg"):
        path.write_bytes(later(path.read_bytes()))
    agent = make_agent(spool_limit_bytes=6_000)
    assert agent.spool.held_segments == 3
    for _ in range(40):
        rank.facts()
        round_of(agent)
        assert agent.spool.waiting_bytes + agent.spool.held_bytes <= 6_000
    assert agent.spool.held_segments < 3 and agent.spool.dropped > 0
    rank.ring.close()


def test_collectors_that_never_agree_are_not_asked_without_a_pause(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    class Flapping(Collector):
        def _verdict(self, piece: bytes) -> dict[str, Any]:
            self.formats = {1 + LATER - min(self.formats)}  # 9, 1, 9, 1, ...
            return super()._verdict(piece)

    collector = Flapping(1)
    agent = make_agent()
    fill(agent, rank, 2)
    agent.close()
    first = min((tmp_path / "spool").glob("*.seg"))
    first.write_bytes(later(first.read_bytes()))
    with serve_url(collector) as url:
        agent = make_agent(url)
        waits: list[float] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) >= 3

        agent.relay.drain(wait)
        assert len(waits) == 3 and collector.requests <= 6
        assert len(agent.spool) + agent.spool.held_segments == 2
