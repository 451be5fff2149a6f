"""The relay sends until it is acknowledged, whatever answers and however often."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from stepwatch.agent.app import Agent
from stepwatch.agent.probes.nic import NicProbe
from stepwatch.agent.relay import answers
from stepwatch.agent.relay.answers import MAX_BYTES, MAX_REASON, read_answer, read_body
from stepwatch.agent.relay.batches import Batches
from stepwatch.agent.relay.queue import SegmentQueue
from stepwatch.signals.access import Access
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.http import AnswerTimeout, Client
from stepwatch.signals.presence import AWAY
from stepwatch.signals.records import Kind
from tests.agent.conftest import (
    Moods,
    Rank,
    collector,
    give_up,
    once,
    round_of,
    serving,
    stored_steps,
    tables_in,
    use_probe,
)
from tests.ports import free_port
from tests.signals.http.raw import raw_server
from tests.waiting import until

MakeAgent = Callable[..., Agent]


class Waits:
    """A wait that takes no time and remembers what was asked of it."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def __call__(self, seconds: float) -> bool:
        self.delays.append(seconds)
        return len(self.delays) > 50


@pytest.mark.parametrize(
    ("mood", "at_least", "at_most"),
    [
        ((429, {"retry-after": "7"}, b"busy"), 7.0, 10.5),
        ((503, {"retry-after": "5"}, b"no store"), 5.0, 7.5),
        ((503, {"retry-after": "999999"}, b""), 60.0, 90.0),
        ((503, {"retry-after": "\xb2"}, b""), 0.1, 0.25),
        ((503, {"retry-after": "-5"}, b""), 0.1, 0.25),
        ((413, {}, b"too large"), 0.1, 0.25),
        ((301, {"location": "http://elsewhere/"}, b""), 0.1, 0.25),
        ((200, {}, b"<html>a proxy's page</html>"), 0.1, 0.25),
        ((200, {}, b'["verdicts"]'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": [], "formats": [1]}'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": ["accepted"]}'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": [{"verdict": 7}]}'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": [{}], "formats": [1]}'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": [{"verdict": "accepted"}], "formats": "all"}'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": [{"verdict": "accepted"}], "formats": []}'), 0.1, 0.25),
        ((200, {}, b'{"verdicts": [{"verdict": "accepted"}], "formats": [true]}'), 0.1, 0.25),
        ((200, {}, b"[" * 200_000), 0.1, 0.25),
        ((503, {"content-type": "text/plain; charset=hex"}, b"no store"), 0.1, 0.25),
    ],
)
def test_an_answer_that_acknowledges_nothing_loses_nothing(
    rank: Rank,
    tmp_path: Path,
    make_agent: MakeAgent,
    mood: tuple[int, dict[str, str], bytes],
    at_least: float,
    at_most: float,
) -> None:
    moods: Moods = [
        (mood[0], {k: v.encode().decode("latin-1") for k, v in mood[1].items()}, mood[2])
    ]
    with collector(tmp_path / "store.db", moods=moods) as url:
        agent = make_agent(url)
        rank.steps(10)
        round_of(agent)
        waits = Waits()
        agent.relay.drain(waits)
        assert agent.relay.failures == 1
        assert len(waits.delays) == 1
        assert at_least <= waits.delays[0] <= at_most
        assert len(agent.spool) == 0
    assert stored_steps(tmp_path / "store.db") == once(1, 10)


def test_an_answer_without_end_is_read_up_to_a_bound(rank: Rank, make_agent: MakeAgent) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        for _ in range(100):
            sent += MAX_BYTES
            yield b" " * MAX_BYTES

    with raw_server(lambda _: endless()) as server:
        agent = make_agent(server.url)
        rank.steps(10)
        round_of(agent)
        assert agent.relay.send_once() > 0
    assert sent < 50 * MAX_BYTES, "besides what the sockets hold"
    assert len(agent.spool) == 1


def test_an_answer_that_trickles_is_given_up(
    rank: Rank, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timeout of the client starts anew with every byte."""

    async def trickle(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.02)

    with (
        serving(trickle) as url,
        Client(url) as client,
        client.stream("POST", "/v1/segments", content=b"") as response,
        pytest.raises(AnswerTimeout, match="has not ended within"),
    ):
        read_body(response, seconds=0.2)
    # As the relay takes it: the collector is away, and nothing is lost.
    monkeypatch.setattr(answers, "MAX_SECONDS", 0.2)
    with serving(trickle) as url:
        agent = make_agent(url)
        rank.steps(10)
        round_of(agent)
        assert agent.relay.send_once() > 0
    assert (len(agent.spool), agent.relay.link) == (1, AWAY)
    assert agent.relay.problem is not None and "has not ended within" in agent.relay.problem.text


def test_a_reason_is_kept_up_to_a_bound() -> None:
    answer = {"verdicts": [{"verdict": "rejected", "reason": "x" * 100_000}], "formats": [1]}
    (verdict,) = read_answer(json.dumps(answer).encode()).verdicts
    assert verdict.reason == "x" * MAX_REASON


def test_the_delay_grows_and_is_forgotten_after_success(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    moods: Moods = [(500, {}, b"")] * 9
    with collector(tmp_path / "store.db", moods=moods) as url:
        agent = make_agent(url)
        rank.steps(1)
        round_of(agent)
        waits = Waits()
        agent.relay.drain(waits)
        assert waits.delays[0] <= 0.25
        assert 7.5 <= waits.delays[-1] <= 15.0
        assert caplog.text.count("refuses segments or is away") == 1
        moods.append((500, {}, b""))
        rank.steps(1)
        round_of(agent)
        pauses = Waits()
        agent.relay.drain(pauses)
        assert pauses.delays[0] <= 0.25


def test_a_rejected_segment_is_counted_and_blocks_nothing(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        agent.spool._node = "not a name!"
        rank.steps(10)
        round_of(agent)
        agent.spool._node = "n1"
        rank.steps(10)
        round_of(agent)
        agent.relay.drain(give_up)
        assert (agent.relay.refused, agent.relay.failures, len(agent.spool)) == (1, 0, 0)
    assert "bad node name" in caplog.text
    assert set(stored_steps(tmp_path / "store.db")) == {(0, step) for step in range(11, 21)}


def test_a_refused_segment_is_kept_aside_and_its_reason_is_logged_once(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        kept_segments = []
        agent.spool._node = "not a name!"
        for _ in range(3):
            rank.steps(10)
            round_of(agent)
            kept_segments.append(agent.spool.oldest(100)[-1][1])
        agent.spool._node = "n1"
        rank.steps(10)
        round_of(agent)
        agent.relay.drain(give_up)
        aside = sorted((tmp_path / "spool").glob("*.refused"))
        assert [path.read_bytes() for path in aside] == kept_segments
        assert caplog.text.count("bad node name") == 1
        page = generate_latest(agent.registry).decode()
        assert 'stepwatch_agent_refused_segments_total{node="n1"} 3.0' in page
        agent.close()
        restarted = make_agent(url)
        rank.steps(5)
        round_of(restarted)
        restarted.relay.drain(give_up)
        assert (restarted.relay.refused, restarted.relay.failures, len(restarted.spool)) == (
            0,
            0,
            0,
        )
        assert sorted((tmp_path / "spool").glob("*.refused")) == aside, "neither sent nor lost"
    assert set(stored_steps(tmp_path / "store.db")) == {(0, step) for step in range(31, 46)}


class LateProbe(NicProbe):
    """A probe that takes its time when the agent is ending: the sender has long nothing to do."""

    isolated = False
    ending: threading.Event

    def supported(self) -> bool:
        if self.ending.is_set():
            time.sleep(0.5)
        return False


def test_what_is_read_last_is_sent_before_the_agent_ends(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url, poll_seconds=0.05, flush_seconds=0.05)
        probe = LateProbe(agent.clock)
        probe.ending = agent._stopping
        use_probe(agent, probe)
        running = threading.Thread(target=agent.run)
        running.start()
        rank.steps(5)
        until("the steps to be stored", lambda: stored_steps(tmp_path / "store.db") == once(1, 5))
        agent.stop()
        rank.steps(5)
        running.join(30)
        assert not running.is_alive()
    assert stored_steps(tmp_path / "store.db") == once(1, 10)


class FailsOnce(Batches):
    """Raises the first time that it is asked."""

    selections = 0

    def select(self, spool: SegmentQueue) -> list[tuple[int, bytes]]:
        self.selections += 1
        if self.selections == 1:
            raise RuntimeError("no batch today")
        return super().select(spool)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_sending_thread_that_ends_with_an_error_is_counted_and_started_again(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url, poll_seconds=0.05, flush_seconds=0.05)
        agent.relay.batches = FailsOnce()
        running = threading.Thread(target=agent.run)
        running.start()
        rank.steps(5)
        until("the steps to be stored", lambda: stored_steps(tmp_path / "store.db") == once(1, 5))
        text = generate_latest(agent.registry).decode()
        agent.stop()
        running.join(30)
    assert 'stepwatch_agent_thread_failures_total{node="n1",thread="relay"} 1.0' in text
    assert "no batch today" in caplog.text


def test_a_collector_that_is_down_gets_everything_when_it_is_up(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    port = free_port()
    agent = make_agent(f"http://127.0.0.1:{port}", poll_seconds=0.05, flush_seconds=0.05)
    rank = Rank(tmp_path / "rings", capacity=4096)
    running = threading.Thread(target=agent.run)
    running.start()
    for _ in range(10):
        rank.steps(10)
        time.sleep(0.06)
    until("a send to fail", lambda: agent.relay.failures > 0 and len(agent.spool) > 1)
    with collector(tmp_path / "store.db", port):
        until("the spool to be sent", lambda: len(agent.spool) <= 1)
        rank.steps(5)  # the last ones are read by the agent's own ending
        agent.stop()
        running.join(30)
        until("the spool to be sent", lambda: len(agent.spool) == 0)
    assert not running.is_alive()
    assert stored_steps(tmp_path / "store.db") == once(1, 105)
    rank.ring.close()


def test_a_stopping_agent_does_not_wait_for_a_collector_that_is_down(
    rank: Rank, make_agent: MakeAgent
) -> None:
    agent = make_agent(f"http://127.0.0.1:{free_port()}", poll_seconds=0.05, flush_seconds=0.05)
    running = threading.Thread(target=agent.run)
    running.start()
    rank.steps(5)
    until("a send to fail", lambda: agent.relay.failures > 0)
    agent.relay._delay = 1000.0  # it would wait as long as it ever does
    agent.stop()
    running.join(30)
    assert not running.is_alive()
    assert len(agent.spool) > 0


def test_the_token_travels_with_each_request(tmp_path: Path, make_agent: MakeAgent) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    tokens: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        tokens.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with serving(application) as url:
        agent = make_agent(url, access=Access(file))
        agent.relay.ask_formats()
        file.write_text("another\n")
        agent.relay.ask_formats()
    assert tokens == ["Bearer s3cret", "Bearer another"]


@pytest.mark.parametrize("url", ["", "collector:8480", "http://[::1", "ftp://host", "http://"])
def test_a_wrong_url_is_refused_at_the_start(make_agent: MakeAgent, url: str) -> None:
    with pytest.raises(ConfigurationError, match="pass --collector http://HOST:PORT"):
        make_agent(url)


def test_host_rows_and_live_lines_travel_too(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        rank.steps(1)
        round_of(agent)
        agent.relay.drain(give_up)
    tables = next(tables_in(tmp_path / "store.db"))
    # Devices and facts are those of the machine that the tests run on.
    assert set(tables) - {Kind.DEVICE, Kind.NODE_FACT} == {
        Kind.STEP, Kind.RANK_STATE, Kind.HOST, Kind.NIC, Kind.CURSOR, Kind.AGENT
    }  # fmt: skip
    assert int(tables[Kind.HOST]["memory_total_bytes"][0]) > 1 << 20
