"""One real rank in this process, as torchrun would start it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from stepwatch.hooks import Watch
from stepwatch.trainer.config.mesh import MeshShape
from stepwatch.trainer.parallel.runtime import Runtime, joined_process_group


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """The runtime of rank 0 of 1, with Gloo."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    for name, value in (("RANK", 0), ("WORLD_SIZE", 1), ("MASTER_PORT", port)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    with joined_process_group(MeshShape(), 30.0) as joined:
        yield joined


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Hooks that record nothing."""
    monkeypatch.setenv("STEPWATCH_DISABLE", "1")
    return Watch.from_env("test")
