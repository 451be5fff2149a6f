"""`stepwatch collector` and `stepwatch agent` as processes with TLS."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import httpx

from tests.ports import free_port
from tests.waiting import until

_CLEAN = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}


class Program:
    """One verb in `folder`, with its log; ended by `end`."""

    def __init__(self, folder: Path, verb: str, *options: str, **environ: str) -> None:
        self.log = folder / f"{verb}.log"
        self._words = [sys.executable, "-m", "stepwatch.cli", verb, *options]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._words, stdout=log, stderr=log, env=_CLEAN | environ
            )

    def log_lines(self, words: str) -> list[str]:
        """Lines of the log with these words."""
        return [line for line in self.log.read_text().splitlines() if words in line]

    def wait_for(self, words: str) -> list[str]:
        """Wait until the log has a line with these words; fails where the program ended."""

        def matching_lines() -> list[str]:
            assert self._process.poll() is None, self.log.read_text()
            return self.log_lines(words)

        return until(f"{words!r} in {self.log}", matching_lines)

    @property
    def command_line(self) -> bytes:
        """The command line that every user of the machine sees."""
        return Path(f"/proc/{self._process.pid}/cmdline").read_bytes()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end, and wait."""
        self._process.send_signal(number)
        return self._process.wait(60)

    def kill(self) -> None:
        """End it in any case."""
        self._process.kill()
        self._process.wait(60)


class Collector(Program):
    """A collector on a loopback port; `name` is that under which it is asked."""

    def __init__(self, folder: Path, *options: str, scheme: str = "https") -> None:
        self.port = free_port()
        self.url = f"{scheme}://localhost:{self.port}"
        self.store = folder / "store.db"
        words = ("--store", str(self.store), "--port", str(self.port), "--interval", "0.2")
        super().__init__(folder, "collector", *words, *options)
        self.wait_for("listening on")

    def get(self, path: str, ca: Path, token: str = "") -> httpx.Response:
        """Ask as a program with this authority and token does."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        context = ssl.create_default_context(cafile=ca)
        return httpx.get(self.url + path, verify=context, headers=headers, timeout=30.0)
