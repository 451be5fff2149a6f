"""An elastic job continues on one node after it loses the other."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

from .conftest import read_until


def _family(process: int) -> list[int]:
    """Return a process and its descendants: one node of this test."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [process, *(member for child in children for member in _family(int(child)))]


def _answers(port: int) -> bool:
    time.sleep(0.1)
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.matrix
def test_a_lost_node_shrinks_the_data_axis(
    trainer: Any, make_trainer: Callable[[Path], Any], straight: Callable[..., Any]
) -> None:
    # 600 steps keep both nodes busy until one is killed; the warm-up outlasts them.
    length = ("--steps", "600", "--warmup", "1000")
    flags = (*length, "--mesh", "dp_shard=2", "--checkpoint-every", "10", "--restarts", "2")
    port = free_port()
    meeting = ("--nodes", "1:2", "--rendezvous", f"127.0.0.1:{port}")
    host = trainer.start(*trainer.command(*flags, *meeting), STEPWATCH_NODE="host")
    # The first node hosts the rendezvous, and has to be the one that survives.
    while not _answers(port):
        assert host.poll() is None
    guest_trainer = make_trainer(trainer.directory / "other")
    guest_trainer.directory.mkdir()
    guest_trainer.run_dir = trainer.run_dir
    guest = guest_trainer.start(*guest_trainer.command(*flags, *meeting), STEPWATCH_NODE="guest")
    leader = host if _leads(trainer, host, guest) else guest
    printed = read_until(leader, "step 25 ")
    for member in _family(guest.pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    guest_trainer.finish(guest, printed if leader is guest else "")
    finished = trainer.finish(host, printed if leader is host else "")
    assert finished.code == 0, finished.output[-3000:]
    assert finished.result["world"] == 1
    assert finished.result["resumes"][0]["from_step"] >= 20
    straight_losses = straight(*length, "--mesh", "pp=1").losses
    assert finished.losses[:60] == pytest.approx(straight_losses[:60], abs=5e-5)


def _leads(trainer: Any, host: Any, guest: Any) -> bool:
    """Return whether the host's rank leads; torchrun chooses the leader at each rendezvous.

    A slow machine may let the host begin alone: it is restarted when the guest joins.
    """
    while True:
        for process, is_host in ((host, True), (guest, False)):
            for member in _family(process.pid):
                with suppress(OSError):
                    environment = Path(f"/proc/{member}/environ").read_bytes().split(b"\0")
                    if {b"RANK=0", b"WORLD_SIZE=2"} <= set(environment):
                        return is_host
        assert (host.poll(), guest.poll()) == (None, None)
        time.sleep(0.1)
