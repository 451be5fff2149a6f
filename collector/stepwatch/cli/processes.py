"""Child processes of `demo` and `up`: each in its own session, all ended together."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stepwatch.signals.plain_text import plain_line

MARK = "STEPWATCH_DEMO_ID"
"""Environment variable that marks every process started here, so that orphans are found too."""
_PR_SET_PDEATHSIG = 1


class Processes:
    """Starts `python -m stepwatch.cli` processes and ends them; `log_dir` takes their output."""

    def __init__(self, identity: str, log_dir: Path, environ: dict[str, str]) -> None:
        self._identity = identity
        self._log_dir = log_dir
        self._environ = {**os.environ, **environ, MARK: identity}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start one verb; its output goes to `<log_dir>/<name>.log`."""
        with open(self.log(name), "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "stepwatch.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self._running[name] = process
        return process

    def log(self, name: str) -> Path:
        """Return the log path of a process."""
        return self._log_dir / f"{name}.log"

    def last_line(self, name: str) -> str:
        """Return the last line that a process printed."""
        lines = self.log(name).read_text(errors="replace").strip().splitlines()
        return plain_line(lines[-1]) if lines else "it printed nothing"

    def stop(self, name: str, patience_seconds: float) -> None:
        """Terminate one process; kill it if it does not end in time."""
        process = self._running.pop(name, None)
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(patience_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()

    def stop_all(self) -> None:
        """End every process started here, including grandchildren."""
        for name in list(self._running)[::-1]:
            self.stop(name, 5.0)
        for _ in range(50):
            survivors = marked_processes(self._identity)
            if not survivors:
                return
            for pid in survivors:
                _kill(pid)
            time.sleep(0.1)


def marked_processes(identity: str) -> list[int]:
    """Return all processes, except this one, whose environment carries the mark `identity`."""
    mark = f"{MARK}={identity}".encode()
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:  # exited, or another user's
            continue
        if mark in environment.split(b"\0") and int(folder.name) != os.getpid():
            pids.append(int(folder.name))
    return pids


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError):
        return


def _end_with_parent() -> None:
    # If this process is killed with SIGKILL, the kernel sends SIGTERM to its children.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
