"""No answer of a worker server, however bad, hurts or holds up the agent."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from stepwatch.agent.stalls import flight, server

from .workers import JUNK, listening


@pytest.mark.parametrize("junk", JUNK)
def test_a_bad_answer_is_an_error_in_bounded_time_and_memory(junk: str, tmp_path: Path) -> None:
    path = tmp_path / "0.sock"
    with listening(path, JUNK[junk]), pytest.raises((OSError, ValueError)):
        flight.parse(server.ask(path, "fr_trace_json", seconds=1.0, most=1 << 20))


def test_a_socket_that_nobody_serves_any_more_is_an_error_in_bounded_time(tmp_path: Path) -> None:
    """A forked child keeps the socket of a rank that is gone: it connects and never answers."""
    with socket.socket(socket.AF_UNIX) as bound_socket:
        bound_socket.bind(str(tmp_path / "0.sock"))
        bound_socket.listen(1)
        for _ in range(4):  # the last ones find the queue full
            with pytest.raises((OSError, ValueError)):
                server.ask(tmp_path / "0.sock", "fr_trace_json", seconds=0.1)


def test_only_a_socket_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "1.sock")
    empty = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    with listening(tmp_path / "1.sock", lambda out: out.sendall(empty)):
        assert server.ask(tmp_path / "1.sock", "fr_trace_json") == b""
        assert server.ask(tmp_path / "1.sock", "fr_trace_json", os.geteuid()) == b""
        with pytest.raises(PermissionError, match=f"is a socket of user {os.geteuid()}"):
            server.ask(tmp_path / "1.sock", "fr_trace_json", os.geteuid() + 1)
        for name in ("file", "link"):
            with pytest.raises(OSError, match=f"{name} is not a socket"):
                server.ask(tmp_path / name, "fr_trace_json")
        with pytest.raises(FileNotFoundError):
            server.ask(tmp_path / "missing", "fr_trace_json")
