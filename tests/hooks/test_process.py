"""What a rank's process leaves behind: at its end, in its children, at import."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from stepwatch.signals.records import Kind, LifecycleEvent

from .conftest import Run, life_in, only_ring, rows_in

BEGIN = """
from stepwatch.hooks import Watch
watch = Watch.from_env(job="job")
with watch.step():
    pass
"""

FULL_DISK = """
try:
    with open("/dev/full", "w") as file:
        file.write("x")
except OSError:
    raise RuntimeError("unexpected pos 704 vs 598")
"""

LOST_STAGE = """
try:
    raise RuntimeError("[third_party/gloo/pair.cc:537] Connection reset by peer")
except RuntimeError as error:
    raise RuntimeError("\\n   [Stage 1] failed to run forward:") from error
"""

LOST_SERVER = """
try:
    raise RuntimeError("CAS service error: Connection reset by peer")
except RuntimeError as error:
    raise ValueError("shard 17 cannot be read") from error
"""


@pytest.mark.parametrize(
    ("ending", "event", "text"),
    [
        ("", LifecycleEvent.FINISH, b""),
        ("raise RuntimeError('boom')", LifecycleEvent.FAILURE, b"RuntimeError: boom"),
        ("raise RuntimeError('é' * 99)", LifecycleEvent.FAILURE, b"RuntimeError: "),
        ("1 / 0", LifecycleEvent.FAILURE, b"ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", LifecycleEvent.INTERRUPT, b""),
        (
            "class Bad(Exception):\n    __str__ = None\nraise Bad",
            LifecycleEvent.FAILURE,
            b"Bad",
        ),
        ("watch.finish()\nraise SystemExit(0)", LifecycleEvent.FINISH, b""),
        (FULL_DISK, LifecycleEvent.FAILURE, b"OSError: [Errno 28] No space left on device"),
        (LOST_STAGE, LifecycleEvent.FAILURE, b"RuntimeError: [third_party/gloo/pair.cc:537] Con"),
        (LOST_SERVER, LifecycleEvent.FAILURE, b"ValueError: shard 17 cannot be read"),
        ("watch.failed(SystemExit(143))", LifecycleEvent.INTERRUPT, b""),
        ("watch.failed(SystemExit(3))", LifecycleEvent.FAILURE, b"SystemExit: 3"),
    ],
)
def test_the_end_is_reported_with_its_reason(
    run: Run, rings: Path, ending: str, event: LifecycleEvent, text: bytes
) -> None:
    ended = run(BEGIN + ending)
    last = rows_in(rings, Kind.LIFECYCLE)[-1]
    assert (last["event"], last["value"]) == (event, 1), ended.stderr
    assert last["text"].startswith(text)
    assert len(last["text"]) <= 56
    assert only_ring(rings).closed
    assert "_finish_at_exit" not in ended.stderr


def test_a_killed_rank_leaves_its_ring_open_and_readable(run: Run, rings: Path) -> None:
    ended = run(BEGIN + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert ended.returncode == -signal.SIGKILL
    assert not only_ring(rings).closed
    assert len(rows_in(rings, Kind.STEP)) == 1


def test_an_os_exit_is_no_clean_end(run: Run, rings: Path) -> None:
    run(BEGIN + "import os\nos._exit(0)")
    assert not only_ring(rings).closed
    assert life_in(rings)["event"].tolist() == [
        LifecycleEvent.START,
        LifecycleEvent.FIRST_STEP,
    ]


def test_a_forked_child_writes_nothing(run: Run, rings: Path) -> None:
    program = (
        BEGIN
        + """
import os, sys, time
handle = watch.checkpoint(9)
handle.__enter__()
before = watch.recorder.ring.written
child = os.fork()
if child == 0:
    with watch.step() as step, step.phase("forward"):
        step.record(loss=1.0)
    watch.phase("no such phase")
    handle.__exit__(None, None, None)
    handle.verified()
    watch.preempted()
    watch.close()
    time.sleep(0.6)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
handle.__exit__(None, None, None)
with watch.step():
    pass
watch.close()
"""
    )
    ended = run(program)
    assert ended.returncode == 0, ended.stderr
    assert rows_in(rings, Kind.STEP)["step"].tolist() == [0, 1]
    assert rows_in(rings, Kind.CHECKPOINT)["event"].tolist() == [1, 1]
    events = life_in(rings)["event"].tolist()
    assert events == [LifecycleEvent.START, LifecycleEvent.FIRST_STEP, LifecycleEvent.FINISH]
    assert only_ring(rings).hook_errors == 0
    assert only_ring(rings).identity.rank == 0


def test_multiprocessing_children_are_no_ranks(run: Run, rings: Path) -> None:
    program = (
        BEGIN
        + """
import multiprocessing
def work():
    with watch.step():
        pass
child = multiprocessing.get_context("fork").Process(target=work)
child.start(); child.join()
assert child.exitcode == 0
watch.close()
"""
    )
    ended = run(program)
    assert ended.returncode == 0, ended.stderr
    assert rows_in(rings, Kind.STEP)["step"].tolist() == [0]


def test_no_thread_starts_when_switched_off(run: Run, rings: Path) -> None:
    program = (
        BEGIN + "import sys, threading; print(threading.active_count(), 'torch' in sys.modules)"
    )
    assert run(program, STEPWATCH_DISABLE="1").stdout.strip() == "1 False"
    assert not rings.exists()
    assert run(program).stdout.strip() == "2 False"


def test_without_torch_everything_but_attach_works(run: Run, rings: Path) -> None:
    program = (
        """
import sys
sys.modules["torch"] = sys.modules["torch.distributed"] = None
"""
        + BEGIN
        + """
with watch.step() as step, watch.collective("all_reduce", nbytes=8):
    step.record(loss=1)
with watch.step(), watch.collective("all_reduce", group=object(), nbytes=8):
    pass
watch.attach(model=object())
"""
    )
    ended = run(program)
    assert ended.returncode == 0, ended.stderr
    assert rows_in(rings, Kind.COLLECTIVE)["bytes"].tolist() == [8, 8]
    assert rows_in(rings, Kind.GROUP)["text"].tolist() == [b"0"]
    assert len(rows_in(rings, Kind.STEP)) == 3


def test_no_threads_left_to_start_is_survived(run: Run, rings: Path) -> None:
    program = (
        """
import threading
def refuse(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
"""
        + BEGIN
        + "print(watch.enabled, watch.guard.errors)"
    )
    assert run(program).stdout.strip() == "True 1"
    assert len(rows_in(rings, Kind.STEP)) == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_0_says_since_when_its_devices_are_held(run: Run, rings: Path, rank: int) -> None:
    allocation = "import os\nos.environ |= {'SLURM_JOB_START_TIME': '1795000000', "
    run(f"{allocation}'RANK': '{rank}', 'WORLD_SIZE': '2'}}\n{BEGIN}")
    rows = life_in(rings)
    allocation_values = rows[rows["event"] == LifecycleEvent.ALLOCATION]["value"].tolist()
    assert allocation_values == ([1_795_000_000] if rank == 0 else [])
