"""A crowd of connections to a collector on loopback, and a collector with few descriptors."""

from __future__ import annotations

import http.client
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepwatch.signals.records import Kind
from tests.collector.made import body, segment, state_rows
from tests.collector.process import Process

DESCRIPTORS = 1024
"""The usual limit of open files."""
CROWD = 1100
"""More connections than that."""
FEW_LINES = 20
_LIMITED = (
    "import resource, sys; from stepwatch.cli.main import main; "
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS})); "
    "sys.exit(main())"
)


@contextmanager
def limited_collector(folder: Path) -> Iterator[Process]:
    """A collector process that may open `DESCRIPTORS` files."""
    process = Process(folder, program=("-c", _LIMITED))
    try:
        process.start()
        process.wait_ready()
        yield process
    finally:
        process.end()


@contextmanager
def connections(port: int, count: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    """`count` connections on which `first` was sent; closed at the end."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            opened.append(_connect(port))
            if first:
                opened[-1].sendall(first)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def _connect(port: int) -> socket.socket:
    """A connection; a full backlog lets a client wait and try again."""
    for _ in range(50):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5.0)
        except TimeoutError:
            time.sleep(0.1)
    raise AssertionError("the collector accepts no connection")


def one_segment(sequence: int) -> bytes:
    """A request body: one segment that a collector acknowledges."""
    return body([segment(sequence, {Kind.RANK_STATE: state_rows([0], 1, 1.0)})])


def lines(process: Process) -> list[str]:
    """The log of a collector."""
    return process.log.read_text().splitlines()


def post(agent: http.client.HTTPConnection, data: bytes) -> int:
    """Send segments as an agent with keep-alive does: once more where its connection was closed."""
    try:
        return _posted(agent, data)
    except (http.client.RemoteDisconnected, ConnectionError):
        agent.close()
        return _posted(agent, data)


def _posted(agent: http.client.HTTPConnection, data: bytes) -> int:
    agent.request("POST", "/v1/segments", data)
    answer = agent.getresponse()
    answer.read()
    return answer.status
