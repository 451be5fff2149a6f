"""A thread that ends with an error is seen, counted and started again, with growing pauses."""

from __future__ import annotations

import itertools
import threading

import pytest

from stepwatch.agent.supervision import LONGEST_DELAY_SECONDS, SupervisedThread
from stepwatch.signals.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class TurnedClock(SystemClock):
    """A clock whose hands the test turns."""

    seconds = 100.0

    def monotonic_ns(self) -> int:
        return round(self.seconds * 10**9)


class Work:
    """Fails as long as `broken`; counts how often it was started."""

    def __init__(self) -> None:
        self.broken = True
        self.starts = 0
        self.stopping = threading.Event()

    def __call__(self) -> None:
        self.starts += 1
        if self.broken:
            raise RuntimeError("no work today")
        self.stopping.wait(30)


def test_restarts_come_at_once_then_after_growing_pauses() -> None:
    clock, work = TurnedClock(), Work()
    thread = SupervisedThread("worker", work, clock)
    thread.start()
    restarts = []
    for _ in range(400):
        assert thread.join(10)
        starts_before = work.starts
        thread.check()
        assert thread.join(10)
        restarts += [clock.seconds] * (work.starts - starts_before)
        clock.seconds += 1.0
    pauses = [later - earlier for earlier, later in itertools.pairwise(restarts)]
    assert restarts[0] == 100.0
    assert pauses == sorted(pauses) and pauses[-1] <= LONGEST_DELAY_SECONDS + 1
    assert pauses[0] <= 2 and pauses[-1] >= LONGEST_DELAY_SECONDS
    assert thread.failures in (work.starts, work.starts - 1)


def test_the_pause_is_short_again_after_a_long_time_of_work() -> None:
    clock, work = TurnedClock(), Work()
    thread = SupervisedThread("worker", work, clock)
    thread.start()
    for _ in range(100):
        assert thread.join(10)
        thread.check()
        clock.seconds += 1.0
    assert thread.join(10)
    clock.seconds += 2 * LONGEST_DELAY_SECONDS
    starts_before = work.starts
    thread.check()
    assert thread.join(10)
    thread.check()
    assert work.starts == starts_before + 1 and thread.join(10)


def test_a_thread_that_ends_cleanly_stays_ended(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.broken = False
    thread = SupervisedThread("worker", work, SystemClock())
    thread.start()
    assert thread.is_alive()
    thread.check()
    work.stopping.set()
    assert thread.join(10)
    thread.check()
    assert (thread.failures, work.starts, caplog.text) == (0, 1, "")


def test_the_error_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    clock, work = TurnedClock(), Work()
    thread = SupervisedThread("worker", work, clock)
    thread.start()
    assert thread.join(10)
    thread.check()
    assert thread.join(10)
    for _ in range(5):
        thread.check()
    assert caplog.text.count("no work today") == 2, "once for each time it ended"
    assert thread.failures == 2
