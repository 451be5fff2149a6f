"""A rank in a pid namespace of its own, as in a container, seen by an agent outside."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.rings.namespaces import LocalProcesses
from stepwatch.signals import places
from stepwatch.signals.blackbox import Identity
from stepwatch.signals.processes import pid_namespace, start_ticks
from stepwatch.signals.records import Kind, ProcessState
from tests.agent.conftest import round_of, spooled
from tests.services import ROOT
from tests.waiting import until

INSIDE = """
import os, time
from stepwatch.hooks import Watch
watch = Watch.from_env(job="inside", rank=0, world=1)
with watch.step():
    pass
print(os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A rank that is process 1 of its namespace."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a pid namespace needs root and unshare")
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", INSIDE]
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        places.ENV_RING_DIR: str(tmp_path / "rings"),
    }
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n", "it has another number inside"
            yield process
        finally:
            for inside in children_of(process.pid):
                os.kill(inside, signal.SIGKILL)
            process.kill()


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_rank_in_another_namespace_is_seen_like_any_other(
    rank: subprocess.Popen[str], make_agent: Callable[..., Agent]
) -> None:
    agent = make_agent()
    (outside,) = children_of(rank.pid)
    agent.poll()
    round_of(agent)
    (identity,) = agent.tail.identities()
    assert identity.pid == outside != 1 and identity.pid_namespace == pid_namespace()
    row = spooled(agent)[-1][Kind.RANK_STATE][0]
    assert row["process_state"] in (ProcessState.SLEEPING, ProcessState.RUNNING)
    assert row["cpu_seconds"] > 0.0 and row["resident_bytes"] > 1 << 20
    os.kill(outside, signal.SIGKILL)

    def exit_code() -> int | None:
        agent.poll()
        round_of(agent)
        rows = [part[Kind.RANK_STATE] for part in spooled(agent) if Kind.RANK_STATE in part]
        codes = [int(exits[-1]["exit_code"]) for exits in rows if exits[-1]["exit_code"] >= 0]
        return codes[-1] if codes else None

    assert until("its end is seen", exit_code) == 128 + signal.SIGKILL


def test_only_the_very_process_is_taken(tmp_path: Path) -> None:
    """A ring names a process: one with the same number, or the same start, is another."""
    pid, start = os.getpid(), start_ticks(os.getpid())
    identity = Identity("job", 0, 0, 1, "node", pid, 7, process_start=start, pid_namespace=5)
    assert LocalProcesses(namespace=6).localise(identity) == identity, (
        "no process is in namespace 5"
    )
    real = identity._replace(pid_namespace=pid_namespace())
    assert LocalProcesses(namespace=6).localise(real).pid == pid
    for lie in (real._replace(pid=pid + (1 << 22)), real._replace(process_start=start + 1)):
        assert LocalProcesses(namespace=6).localise(lie) == lie
    assert LocalProcesses(tmp_path, namespace=6).localise(real) == real, "an empty /proc"


def test_its_launcher_is_found_with_it() -> None:
    pid, parent = os.getpid(), os.getppid()
    identity = Identity(
        "job", 0, 0, 1, "node", pid, 7, process_start=start_ticks(pid),
        pid_namespace=pid_namespace(), launcher=parent, launcher_start=start_ticks(parent),
    )  # fmt: skip
    assert LocalProcesses(namespace=6).localise(identity).launcher == parent
    reused = identity._replace(launcher_start=1)
    assert LocalProcesses(namespace=6).localise(reused).launcher == 0, (
        "another process has that number here"
    )


def test_a_ring_that_does_not_say_where_its_process_is_is_left_as_it_is() -> None:
    identity = Identity("job", 0, 0, 1, "node", 1, 7)
    assert LocalProcesses().localise(identity) == identity
