"""`/healthz` and `/readyz` of an agent: what is wrong has a reason, and what is not known is no."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.agent.web.health import ANSWERED_SECONDS, ASK_DISK_SECONDS, STALLED_SECONDS, Health
from stepwatch.agent.web.server import MOST_REQUESTS
from tests.agent.conftest import collector
from tests.agent.test_supervision import TurnedClock
from tests.waiting import until

TOKEN = "of-the-readers"


class Node:
    """An agent whose loop the test turns, and what it answers."""

    def __init__(self, folder: Path, url: str) -> None:
        self.clock = TurnedClock()
        self.rings, self.spool = folder / "rings", folder / "spool"
        options = AgentOptions(self.rings, self.spool, url, "n1", metrics_token=TOKEN)
        self.agent = Agent(options, self.clock, probes=[])
        self.url = f"http://127.0.0.1:{self.agent.port}"

    def turn(self) -> None:
        """What the polling loop does every so often."""
        self.agent.announcement.update()
        self.agent.poll()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=30.0)

    def refused(self, path: str) -> str:
        """What it answers where something is wrong."""
        answer = self.get(path)
        assert answer.status_code == 503
        return answer.text


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with collector(tmp_path_factory.mktemp("collector") / "store.db") as collector_url:
        yield collector_url


@pytest.fixture
def node(tmp_path: Path, url: str) -> Iterator[Node]:
    new_node = Node(tmp_path, url)
    yield new_node
    new_node.agent.close()


def test_a_loop_that_never_began_or_stalls_is_not_alive(node: Node) -> None:
    assert "has not begun" in node.refused("/healthz")
    node.turn()
    assert (node.get("/healthz").status_code, node.get("/healthz").text) == (200, "ok\n")
    node.clock.seconds += STALLED_SECONDS + 1
    assert node.refused("/healthz") == "the polling loop has not gone round for 21 s\n"
    node.turn()
    assert node.get("/healthz").status_code == 200


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_not_alive_until_it_is_started_again(node: Node) -> None:
    node.turn()
    broken = threading.Event()
    broken.set()

    def fail() -> None:
        if broken.is_set():
            raise RuntimeError("no work today")

    node.agent.sender.after_drain = fail
    thread = node.agent.sender.thread
    thread.start()
    assert thread.join(60.0)
    assert node.refused("/healthz") == "the relay thread ended; the log has the reason\n"
    broken.clear()
    thread.check()
    assert node.get("/healthz").status_code == 200
    node.agent.stop()
    assert node.agent.sender.finish(60.0)


def test_what_is_not_known_yet_is_not_ready(node: Node) -> None:
    lines = node.refused("/readyz").splitlines()
    assert lines == [
        "not ready",
        f"rings: unknown: {node.rings} was not read yet",
        "spool: yes",
        "collector: unknown: it was not asked yet",
    ]


def test_ready_once_all_three_hold_and_not_after_each_is_gone(node: Node) -> None:
    node.turn()
    node.agent.relay.ask_formats()
    ready = node.get("/readyz")
    assert ready.status_code == 200
    assert ready.text == "ready\nrings: yes\nspool: yes\ncollector: yes\n"
    node.clock.seconds += ANSWERED_SECONDS + 1
    assert "collector: no: it has not answered for 31 s" in node.refused("/readyz")
    node.agent.relay.ask_formats()
    shutil.rmtree(node.spool)
    assert node.get("/readyz").status_code == 200, "the disk is asked once a second at most"
    node.clock.seconds += ASK_DISK_SECONDS
    assert f"spool: no: cannot write to {node.spool}: No such file" in node.refused("/readyz")
    node.spool.mkdir()
    node.clock.seconds += ASK_DISK_SECONDS
    shutil.rmtree(node.rings)
    assert f"rings: no: cannot read {node.rings}: No such file" in node.refused("/readyz")
    node.rings.mkdir()
    assert node.get("/readyz").status_code == 200


def test_rings_that_are_closed_to_it_are_named_though_it_is_ready(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To root none is closed, and tests may run as root: the list of them is given."""
    node.turn()
    closed = [node.rings / "user-1000", node.rings / "user-1001"]
    monkeypatch.setattr("stepwatch.agent.web.health.closed_directories", lambda root: closed)
    node.agent.relay.ask_formats()
    answer = node.get("/readyz")
    assert answer.status_code == 200
    assert "rings: yes: but not those in 2 directories of other users\n" in answer.text


def test_a_collector_that_never_answered_is_no_and_not_unknown(tmp_path: Path) -> None:
    node = Node(tmp_path, "http://127.0.0.1:9")
    node.agent.relay.ask_formats()
    assert "collector: no: it has not answered yet" in node.refused("/readyz")
    node.agent.close()


def test_a_disk_that_does_not_answer_is_unknown(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync does not come back, as of a sick disk; a pipe at the place is not waited for."""
    monkeypatch.setattr("stepwatch.agent.web.health.DISK_SECONDS", 0.2)
    health = Health(node.agent, node.spool)
    answers, sync = threading.Event(), os.fsync

    def hang(descriptor: int) -> None:
        answers.wait(240.0)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", hang)
    os.mkfifo(node.spool / f"..writable.{os.getpid()}")
    first = threading.Thread(target=health.checks)
    first.start()
    until("the first question to wait for the disk", health._writing.locked)
    spool = health.checks()[1]
    assert (spool.holds, spool.reason) == (None, "its disk has not answered for 0 s")
    answers.set()
    first.join(60.0)
    assert not first.is_alive()


def test_metrics_need_the_token_and_the_health_does_not(node: Node) -> None:
    node.turn()
    for headers in ({}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": TOKEN}):
        answer = node.get("/metrics", **headers)
        assert (answer.status_code, answer.text) == (401, "present the bearer token\n")
    shown = node.get("/metrics", authorization=f"Bearer {TOKEN}")
    assert shown.status_code == 200 and "stepwatch_agent_records_total{" in shown.text
    assert node.get("/healthz").status_code == 200
    assert TOKEN not in node.get("/readyz").text


def test_a_name_that_was_given_this_address_reads_no_metrics(tmp_path: Path, url: str) -> None:
    """A page of another site under such a name sends it as `Host`, and has no token here."""
    agent = Agent(AgentOptions(tmp_path / "rings", tmp_path / "spool", url, "n1"), probes=[])
    try:
        metrics_url = f"http://127.0.0.1:{agent.port}/metrics"
        assert httpx.get(metrics_url, headers={"host": "evil.example"}).status_code == 421
        assert httpx.get(metrics_url).status_code == 200
        assert (
            httpx.get(metrics_url, headers={"host": f"localhost:{agent.port}"}).status_code == 200
        )
    finally:
        agent.close()


def test_other_pages_and_methods_are_refused(node: Node) -> None:
    assert node.get("/").status_code == 404
    answer = httpx.post(f"{node.url}/healthz", content=b"x")
    assert answer.status_code == 405


@contextmanager
def clients(node: Node, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections that send this, and read nothing."""
    assert node.agent.port is not None
    opened = []
    try:
        for _ in range(count):
            opened.append(socket.create_connection(("127.0.0.1", node.agent.port)))
            opened[-1].sendall(sent)
        yield opened
    finally:
        for client in opened:
            client.close()


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /metrics HTTP/1.1\r\nX: "])
def test_clients_that_send_no_request_keep_nobody_out(node: Node, sent: bytes) -> None:
    node.turn()
    with clients(node, 40, sent):
        assert [node.get("/healthz").status_code for _ in range(20)] == [200] * 20
        assert threading.active_count() < 3 * MOST_REQUESTS


def test_a_client_that_sends_a_byte_now_and_then_is_closed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwatch.agent.web.server.REQUEST_SECONDS", 1.0)
    node.turn()

    def is_closed(client: socket.socket) -> bool:
        try:
            client.sendall(b"x")
        except OSError:
            return True
        return False

    with clients(node, 1, b"GET /healthz HTTP/1.1\r\nX: ") as (client,):
        until("the connection to be closed", lambda: is_closed(client))
    assert node.get("/healthz").status_code == 200
