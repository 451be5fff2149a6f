"""`stepwatch collector` as a real process on a free port."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.ports import free_port
from tests.waiting import until


class Process:
    """Starts, stops and kills; the port stays the same across restarts."""

    def __init__(
        self,
        folder: Path,
        interval: float = 0.2,
        url: str | None = None,
        program: tuple[str, ...] = ("-m", "stepwatch.cli"),
        options: tuple[str, ...] = (),
    ) -> None:
        self.program, self.options = program, options
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.interval = interval
        self.store = folder / "store.db"
        self.place = url or str(self.store)
        self.log = folder / "log"
        self.headers: dict[str, str] = {}
        """Headers of what is sent: a token, for example."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    def start(self) -> None:
        """Start it, without waiting."""
        words = ["collector", "--store", self.place, "--port", str(self.port)]
        words += ["--interval", str(self.interval)]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.program, *words, *self.options],
                stdout=log,
                stderr=log,
            )

    def wait_ready(self, seconds: float = 240.0) -> None:
        """Wait until it answers."""
        until(f"the collector to answer; its log: {self.log}", self._answers, seconds)

    def _answers(self) -> bool:
        ended = self._process is not None and self._process.poll() is not None
        assert not ended, f"the collector ended: {self.log.read_text()[-2000:]}"
        try:
            return httpx.get(f"{self.url}/healthz", timeout=1.0).status_code == 200
        except httpx.HTTPError:
            return False

    def send(self, data: bytes) -> httpx.Response:
        """Post segments."""
        address = f"{self.url}/v1/segments"
        return httpx.post(address, content=data, headers=self.headers, timeout=60.0)

    def send_signal(self, number: int) -> None:
        """Send a signal to what runs."""
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGKILL) -> int:
        """Send a signal and return the exit code; does nothing where none runs."""
        if self._process is None:
            return 0
        self._process.send_signal(number)
        code = self._process.wait(20)
        self._process = None
        return code


@contextmanager
def running(folder: Path, url: str | None = None) -> Iterator[Process]:
    """A collector process that answers, with a store in `folder` or at `url`; killed at the end."""
    process = Process(folder, url=url)
    try:
        process.start()
        process.wait_ready()
        yield process
    finally:
        process.end()
