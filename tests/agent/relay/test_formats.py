"""Agents and collectors of different versions: what is sent is read, what is not read is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from stepwatch.agent.app import Agent
from stepwatch.signals import wire
from stepwatch.signals.wire import frame
from tests.agent.conftest import Rank, give_up, round_of

from .stub import Collector, at

MakeAgent = Callable[..., Agent]
LATER = 9


def later(data: bytes, number: int = LATER) -> bytes:
    """The segment as a later version would write it: another magic, a payload nobody here reads."""
    _, header, _, raw_size = frame.open_frame(wire.transcode(data, 3))
    return frame.close_frame(number, header, b"from the future", raw_size)


def fill(agent: Agent, rank: Rank, segments: int) -> None:
    for _ in range(segments):
        rank.steps(5)
        round_of(agent)


def files(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in (folder / "spool").glob(f"*.{suffix}"))


def test_a_collector_of_the_previous_version_gets_everything_in_its_format(
    rank: Rank, make_agent: MakeAgent
) -> None:
    old = Collector(2, legacy=True)
    with at(old) as url:
        agent = make_agent(url)
        fill(agent, rank, 5)
        agent.relay.drain(give_up)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert (len(agent.spool), agent.relay.refused, agent.relay.failures) == (0, 0, 0)
        assert old.steps() == list(range(1, 31))
        assert {wire.format_of(data) for data in old.taken} == {2}
        assert old.requests == 3, "one to learn, one to send again, one for what came later"


@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_that_does_not_understand_us_acknowledges_nothing(
    rank: Rank, make_agent: MakeAgent, count: int
) -> None:
    old = Collector(2, legacy=True)
    old.word = "accepted"  # whatever it says of bytes that it cannot read
    with at(old) as url:
        agent = make_agent(url)
        fill(agent, rank, count)
        agent.relay.send_once()
        assert len(agent.spool) == count


def test_an_upgraded_collector_gets_the_new_format_again(rank: Rank, make_agent: MakeAgent) -> None:
    collector = Collector(2, legacy=True)
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        assert agent.relay.reads_nodes is False
        collector.legacy, collector.formats = False, {2, 3}
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 21))
        assert agent.relay.reads_nodes is True
        assert [wire.format_of(data) for data in collector.taken] == [2, 2, 2, 3]


def test_a_collector_rolled_back_in_mid_stream_loses_nothing(
    rank: Rank, make_agent: MakeAgent
) -> None:
    collector = Collector(2, 3)
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        collector.legacy, collector.formats = True, {2}
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 21))
        assert agent.relay.refused == 0


@pytest.mark.parametrize("word", ["unsupported", "postponed"])
def test_a_segment_that_cannot_be_read_is_held_and_blocks_nothing(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    collector = Collector(2, 3)
    collector.word = word
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        assert (len(agent.spool), agent.spool.held, agent.relay.failures) == (0, 3, 0)
        assert len(files(tmp_path, "held")) == 3 and agent.spool.held_bytes > 0
        assert caplog.text.count("cannot read segment") == 1
        page = generate_latest(agent.registry).decode()
        assert 'stepwatch_agent_held_segments{node="n1"} 3.0' in page
        collector.word = ""
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(16, 21)), "held ones are not sent again yet"
        collector.formats |= {4}
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert agent.spool.held == 0
        assert sorted(collector.steps()) == list(range(1, 26))


def test_a_node_without_jobs_asks_for_the_formats_while_it_holds_segments(
    rank: Rank, make_agent: MakeAgent
) -> None:
    collector = Collector(2, 3)
    collector.word = "unsupported"
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 2)
        agent.relay.drain(give_up)
        agent.relay.ask_formats()
        agent.relay.retry_failed()
        assert (len(agent.spool), agent.spool.held) == (0, 2), "nothing new is announced"
        collector.word, collector.formats = "", {2, 3, 4}
        agent.relay.ask_formats()
        assert (len(agent.spool), agent.spool.held) == (2, 0)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 11))
    agent.relay.ask_formats()  # nobody answers


def test_a_held_file_that_somebody_deleted_keeps_back_no_other(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    collector = Collector(LATER)
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        assert agent.spool.held == 3
        min((tmp_path / "spool").glob("*.held")).unlink()
    agent.spool.release([3])
    assert (len(agent.spool), agent.spool.held, agent.spool.dropped) == (2, 0, 1)


def test_held_segments_are_tried_again_after_a_restart(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    collector = Collector(2, 3)
    collector.word = "unsupported"
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 3)
        agent.relay.drain(give_up)
        agent.close()
        collector.word = ""
        agent = make_agent(url)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert (agent.spool.held, files(tmp_path, "held")) == (0, [])
        assert collector.steps() == list(range(1, 21)), "in order, each once"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_segment_that_was_held_leads_no_cursor_back(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, restarts: bool
) -> None:
    collector = Collector(2, 3)
    collector.word = "unsupported"
    with at(collector) as url:
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
            collector.formats |= {4}
            agent.relay.ask_formats()
        agent.relay.drain(give_up)
        assert agent.spool.held == 0
        agent.close()
        agent = make_agent(url)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert sorted(collector.steps()) == list(range(1, 26)), "each once"


def test_spool_files_of_a_later_version_are_held_until_a_collector_reads_them(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector(2, 3)
    agent = make_agent()
    fill(agent, rank, 3)
    agent.close()
    future = sorted((tmp_path / "spool").glob("*.seg"))[1]
    data = later(future.read_bytes())
    future.write_bytes(data)
    with at(collector) as url:
        agent = make_agent(url)
        assert (len(agent.spool), agent.spool.held, agent.spool.dropped) == (2, 1, 0)
        agent.relay.drain(give_up)
        assert collector.steps() == [*range(1, 6), *range(11, 16)]
        assert future.with_suffix(".held").read_bytes() == data
        assert "segment format 9" in caplog.text and "damaged" not in caplog.text
        collector.formats |= {LATER}
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert data in collector.taken and agent.spool.held == 0


def test_spool_files_of_the_previous_version_are_sent(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    collector = Collector(2, 3)
    agent = make_agent()
    fill(agent, rank, 3)
    agent.close()
    for path in (tmp_path / "spool").glob("*.seg"):
        path.write_bytes(wire.transcode(path.read_bytes(), 2))
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 1)
        agent.relay.drain(give_up)
        assert collector.steps() == list(range(1, 21))
        assert [wire.format_of(data) for data in collector.taken] == [2, 2, 2, 3]


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
    assert agent.spool.held == 3
    for _ in range(40):
        rank.facts()
        round_of(agent)
        assert agent.spool.waiting_bytes + agent.spool.held_bytes <= 6_000
    assert agent.spool.held < 3 and agent.spool.dropped > 0
    rank.ring.close()


def test_collectors_that_never_agree_are_not_asked_without_a_pause(
    rank: Rank, make_agent: MakeAgent
) -> None:
    class Flapping(Collector):
        def _cut(self, body: bytes) -> list[bytes]:
            self.formats = {5 - min(self.formats)}  # 2, 3, 2, 3, ...
            return super()._cut(body)

    collector = Flapping(3)
    with at(collector) as url:
        agent = make_agent(url)
        fill(agent, rank, 1)
        waits: list[float] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            return len(waits) >= 3

        agent.relay.drain(wait)
        assert len(waits) == 3 and collector.requests <= 6
        assert len(agent.spool) == 1
