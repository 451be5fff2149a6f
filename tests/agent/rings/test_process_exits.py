"""Which process died first, and how, is known although all are gone a moment later."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepwatch.agent.rings.process_exits import UNKNOWN_EXIT, ProcessExit, ProcessExits, exit_code
from stepwatch.signals.clock import SystemClock
from tests.waiting import until


@contextmanager
def process(text: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def exit_of(exits: ProcessExits, ring_id: int, seconds: float = 20.0) -> ProcessExit:
    return waited(lambda: exits.exit_of(ring_id), seconds)


def waited(find: Callable[[], ProcessExit | None], seconds: float) -> ProcessExit:
    return until("the exit to be seen", find, seconds, every=0.01)


def test_the_order_of_deaths_and_how_each_ended() -> None:
    exits = ProcessExits(SystemClock())
    with process("input()") as first, process("input()") as second:
        for ring_id, child in ((1, first), (2, second)):
            exits.watch(ring_id, child.pid, 0)
        assert exits.exit_of(1) is None and exits.exit_of(2) is None
        began = time.monotonic_ns()
        second.send_signal(signal.SIGKILL)
        killed = exit_of(exits, 2)
        first.communicate(b"\n")  # ends by itself; its parent reaps it at once
        ended = exit_of(exits, 1)
    assert began < killed.at_ns < ended.at_ns < time.monotonic_ns()
    assert killed.exit_code == 128 + signal.SIGKILL
    assert ended.exit_code in (0, UNKNOWN_EXIT), (
        "unknown where the parent reaped first, before Linux 6.15"
    )


def test_an_exit_code_is_read_before_the_parent_reaps() -> None:
    exits = ProcessExits(SystemClock())
    with process("import sys; input(); sys.exit(3)") as child:
        exits.watch(1, child.pid, 0)
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert exit_of(exits, 1).exit_code == 3


LINUX = tuple(int(part) for part in os.uname().release.split(".")[:2])


@pytest.mark.skipif(LINUX < (6, 15), reason="before Linux 6.15 nobody knows once it is reaped")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", 128 + signal.SIGKILL),
        ("", 0),
    ],
)
def test_an_exit_code_is_known_after_the_parent_reaped_as_well(text: str, code: int) -> None:
    with process(f"input(); {text}") as child:
        handle = os.pidfd_open(child.pid)
        child.communicate(b"\n")
        assert exit_code(Path("/proc"), child.pid, handle) == code
        os.close(handle)


def test_a_pid_taken_over_by_another_process_is_not_watched() -> None:
    exits = ProcessExits(SystemClock())
    with process("input()") as child:
        exits.watch(1, child.pid, 1)
        assert not exits.thread.started, "nobody waits for it"
        child.kill()
        child.wait()
        assert exits.exit_of(1) is None
    exits.close()


def test_what_is_forgotten_holds_nothing_open() -> None:
    exits = ProcessExits(SystemClock())
    with process("input()") as child:
        exits.watch(1, child.pid, 0)
        exits.watch(2, child.pid, 0)
        exits.forget({2})
        child.kill()
        assert exit_of(exits, 2).exit_code == 128 + signal.SIGKILL
        assert exits.exit_of(1) is None


def test_a_number_that_no_process_can_have_is_not_watched() -> None:
    exits = ProcessExits(SystemClock())
    exits.watch(1, 1 << 32, 0)
    assert exits.exit_of(1) is None


def test_closing_leaves_no_thread_and_nothing_open() -> None:
    def open_resources() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    gc.collect()  # what earlier tests left open must not be closed in between
    resources_before = open_resources()
    with process("input()") as child:
        inside = open_resources()
        exits = ProcessExits(SystemClock())
        exits.watch(1, child.pid, 0)
        assert open_resources()[1] == inside[1] + 1
        exits.close()
        exits.close()
        assert open_resources() == inside
    assert open_resources() == resources_before


class StumblingClock(SystemClock):
    """Fails once in the thread that waits for exits."""

    stumbled = False

    def monotonic_ns(self) -> int:
        if threading.current_thread().name == "process-exits" and not self.stumbled:
            self.stumbled = True
            raise RuntimeError("no time")
        return super().monotonic_ns()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_the_waiting_thread_is_counted_and_no_exit_is_missed() -> None:
    exits = ProcessExits(StumblingClock())
    with process("input()") as child:
        exits.watch(1, child.pid, 0)
        child.kill()
        assert exits.thread.join(20), "it ended with an error"
        exits.thread.check()
        assert exits.thread.failures == 1
        assert exit_of(exits, 1).exit_code == 128 + signal.SIGKILL
        exits.close()
