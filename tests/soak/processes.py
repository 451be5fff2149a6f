"""Processes of a soak: each ends with it, also where the soak itself is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from stepwatch.signals.errors import StepwatchError
from tests.ports import free_port

_PR_SET_PDEATHSIG = 1
PYTHON = sys.executable
CLI = (PYTHON, "-m", "stepwatch.cli")
"""The first words of a command line."""
_READY_SECONDS = 300.0


class SoakError(StepwatchError):
    """A process of the soak ended, or never answered."""


def spawn(log: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a program, its output appended to `log`; the kernel kills it with this process."""
    with open(log, "ab") as output:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )


def end(process: subprocess.Popen[bytes], number: int, patience_seconds: float = 60.0) -> int:
    """Send a signal and return the exit code; a process that ignores it is killed."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        return process.wait(patience_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of all threads of a process, in user and system mode."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    user, system = stat.rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def last_line(log: Path) -> str:
    """The last line that a process printed."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1].strip() if lines else "it printed nothing"


class Collector:
    """`stepwatch collector` as a process on a port that stays the same; `lives` counts starts."""

    def __init__(self, folder: Path, name: str, store: str, *more: str) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.lives = 0
        self.log = folder / f"{name}.log"
        self._words = ["--store", store, "--port", str(self.port), "--compact-after", "1", *more]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, meanwhile: Callable[[], None] | None = None) -> float:
        """Start the collector and wait until it answers; return the seconds.

        `meanwhile` is called now and then.

        Raises:
            SoakError: it ended, or did not answer.
        """
        began = time.monotonic()
        self.lives += 1
        self._process = spawn(self.log, *CLI, "collector", *self._words)
        while not self._answers():
            if self._process.poll() is not None:
                raise SoakError(f"{self.name} ended: {last_line(self.log)}")
            if time.monotonic() - began > _READY_SECONDS:
                raise SoakError(f"{self.name} did not answer in {_READY_SECONDS:.0f} s")
            if meanwhile is not None:
                meanwhile()
            time.sleep(0.05)
        return time.monotonic() - began

    @property
    def pid(self) -> int:
        """Its process number.

        Raises:
            SoakError: it was not started.
        """
        if self._process is None:
            raise SoakError(f"{self.name} does not run")
        return self._process.pid

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)
        return end(process, number)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
