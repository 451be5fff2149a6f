"""Thousands of connections to a collector with 1,024 descriptors: segments are taken meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .crowd import (
    CROWD,
    DESCRIPTORS,
    FEW_LINES,
    connections,
    limited_collector,
    lines,
    one_segment,
    post,
)

HEAD = b"POST /v1/segments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"


@contextmanager
def repeating(act: Callable[[socket.socket], None], crowd: list[socket.socket]) -> Iterator[None]:
    """Meanwhile `act` on every connection of the crowd, about twice a second."""
    finished = threading.Event()

    def repeat() -> None:
        while not finished.wait(0.5):
            for connection in crowd:
                with contextlib.suppress(OSError):
                    act(connection)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def test_connections_that_send_nothing_keep_no_segment_out(tmp_path: Path) -> None:
    with limited_collector(tmp_path) as collector, connections(collector.port, CROWD):
        for sequence in range(1, 4):
            answer = collector.send(one_segment(sequence))
            assert answer.json()["verdicts"][0]["verdict"] == "accepted"
        output_lines = lines(collector)
    assert len(output_lines) < FEW_LINES, output_lines[:FEW_LINES]
    assert sum(str(DESCRIPTORS) in line for line in output_lines) == 1, "the shortfall is said once"


def test_bodies_that_trickle_keep_no_segment_out(tmp_path: Path) -> None:
    with (
        limited_collector(tmp_path) as collector,
        connections(collector.port, CROWD, HEAD) as crowd,
        repeating(lambda connection: connection.sendall(b"x"), crowd),
    ):
        for sequence in range(1, 4):
            answer = collector.send(one_segment(sequence))
            assert answer.status_code == 200
            assert answer.json()["verdicts"][0]["verdict"] == "accepted"
        output_lines = lines(collector)
    assert len(output_lines) < FEW_LINES, output_lines[:FEW_LINES]


def test_bodies_that_trickle_do_not_keep_it_from_ending(tmp_path: Path) -> None:
    """`end` waits for 20 s; a body of which so much has come has 30."""
    most = HEAD.replace(b"1000", b"300000") + b"x" * 250_000
    with limited_collector(tmp_path) as collector, connections(collector.port, 3, most):
        assert collector.send(one_segment(1)).status_code == 200
        assert collector.end(signal.SIGTERM) == 0


def test_heads_that_trickle_keep_no_segment_out(tmp_path: Path) -> None:
    begun = b"POST /v1/segments HTTP/1.1\r\nX-Long: "
    with (
        limited_collector(tmp_path) as collector,
        connections(collector.port, CROWD, begun) as crowd,
        repeating(lambda connection: connection.sendall(b"x"), crowd),
    ):
        assert collector.send(one_segment(1)).status_code == 200


def test_agents_beyond_the_descriptors_are_all_served(tmp_path: Path) -> None:
    """Each keeps its connection open, and opens another one where the collector closed it."""
    with limited_collector(tmp_path) as collector:
        agents = [
            http.client.HTTPConnection("127.0.0.1", collector.port, timeout=60.0)
            for _ in range(CROWD)
        ]
        try:
            with connections(collector.port, 0):
                for agent in agents:
                    agent.connect()
            statuses = {post(agent, one_segment(n)) for n, agent in enumerate(agents, start=1)}
            repeated = {post(agent, one_segment(1)) for agent in agents[:50]}
        finally:
            for agent in agents:
                agent.close()
        assert statuses == repeated == {200}
        assert len(lines(collector)) < FEW_LINES
