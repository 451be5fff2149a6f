"""A rank's worker server that answers junk, and processes to look into."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import strategies as st

from stepwatch.agent.stalls import stack

OK = b"HTTP/1.1 200 OK\r\n"
JUNK = {
    "no answer": lambda out: time.sleep(3),
    "nothing": lambda out: None,
    "no HTTP": lambda out: out.sendall(b"\x00\xff" * 5000),
    "endless headers": lambda out: _endless(out, OK + b"x: y\r\n", b"x: y\r\n"),
    "one endless header": lambda out: _endless(out, OK + b"x: ", b"y" * 65536),
    "gigabytes": lambda out: _endless(
        out, OK + b"content-length: 99999999999\r\n\r\n", b"[" * 65536
    ),
    "gigabytes in pieces": lambda out: _endless(
        out, OK + b"transfer-encoding: chunked\r\n\r\n", b"10000\r\n" + b"[" * 65536 + b"\r\n"
    ),
    "a trickle of headers": lambda out: _endless(out, OK, b"x: y\r\n", pause=0.1),
    "a trickle of body": lambda out: _endless(out, OK + b"\r\n", b"1", pause=0.1),
    "an absurd length": lambda out: out.sendall(OK + b"content-length: -7\r\n\r\n{}"),
    "no number": lambda out: out.sendall(OK + b"content-length: many\r\n\r\n{}"),
    "an error": lambda out: out.sendall(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n"),
    "deep": lambda out: out.sendall(OK + b"\r\n" + b"[" * 200_000),
    "another document": lambda out: out.sendall(OK + b"\r\n[1, 2]"),
    "half a character": lambda out: out.sendall(OK + b"\r\n\"\xc3"),
}  # fmt: skip


def _endless(out: socket.socket, head: bytes, part: bytes, pause: float = 0.0) -> None:
    out.sendall(head)
    while True:
        out.sendall(part)
        time.sleep(pause)


@contextmanager
def listening(path: Path, answer: Callable[[socket.socket], object]) -> Iterator[None]:
    """Answer each request by `answer`, whatever was asked."""
    with serving(path, lambda _request, out: answer(out)):
        yield


@contextmanager
def answering(path: Path, answers: dict[str, bytes]) -> Iterator[None]:
    """Answer requests by how they begin; one that is not expected gets no answer."""

    def answer(request: bytes, out: socket.socket) -> None:
        for begins, reply in answers.items():
            if request.startswith(begins.encode()):
                out.sendall(reply)

    with serving(path, answer):
        yield


@contextmanager
def serving(path: Path, answer: Callable[[bytes, socket.socket], object]) -> Iterator[None]:
    """Listen at `path`, and pass each request on."""
    opened = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY)
    opened.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    opened.listen()

    def serve() -> None:
        while True:
            try:
                accepted, _ = opened.accept()
            except OSError:
                return
            with accepted:
                try:
                    answer(accepted.recv(65536), accepted)
                except OSError:
                    continue

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        opened.shutdown(socket.SHUT_RDWR)
        opened.close()


needs_py_spy = pytest.mark.skipif(
    stack.find_py_spy() is None, reason="py-spy is not installed here: the agent says so too"
)
HELD = """
import ctypes, sys
def load_shard():
    print("in", flush=True)
    ctypes.PyDLL(None).sleep(60)
load_shard()
"""
STOPPED = """
import os, signal
def wait_here():
    print("in", flush=True)
    input()
wait_here()
"""


@contextmanager
def running(folder: Path, text: str) -> Iterator[subprocess.Popen[bytes]]:
    program = folder / "train.py"
    program.write_text(text)
    child = subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip
