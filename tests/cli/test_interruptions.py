"""A command that is interrupted once ends as interrupted, whatever signal comes after it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from stepwatch.cli.interruptions import terminable

ENDS = """
import os, signal, sys
from stepwatch.cli.interruptions import terminable, undisturbed
try:
    with terminable():
        os.kill(os.getpid(), int(sys.argv[1]))
        signal.sigtimedwait([], 10)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGTERM)
    with undisturbed():
        os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    sys.exit(130)
"""


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_no_signal_ends_a_command_while_it_cleans_up(first: signal.Signals) -> None:
    ran = subprocess.run([sys.executable, "-c", ENDS, str(int(first))], timeout=60)
    assert ran.returncode == 130


def test_handlers_are_as_before_where_nobody_interrupted() -> None:
    handlers_before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with terminable():
        assert signal.getsignal(signal.SIGTERM) is not handlers_before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == handlers_before
