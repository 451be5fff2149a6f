"""SIGTERM and the grace period, in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import os, signal, time
from stepwatch.trainer.run.preemption import StopRequest
stop = StopRequest({grace})
stop.install()
assert not stop.is_requested
os.kill(os.getpid(), signal.SIGTERM)
assert stop.is_requested
assert 1.0 <= stop.seconds_left() <= max(1.0, {grace})
{then}
"""


def _run(grace: float, then: str) -> int:
    program = PROGRAM.format(grace=grace, then=then)
    return subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode


def test_sigterm_is_recorded_and_ends_nothing() -> None:
    assert _run(25.0, "") == 0


def test_a_rank_that_hangs_after_the_grace_period_is_ended() -> None:
    assert _run(0.1, "time.sleep(50)") == -signal.SIGALRM


def test_after_remove_sigterm_ends_the_process() -> None:
    then = "stop.remove(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(50)"
    assert _run(25.0, then) == -signal.SIGTERM
