"""A device whose clock the test moves: it works off what was enqueued, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepwatch.hooks.device.backend import Backend


class Stream:
    """A queue of work; `free_at` is the host moment at which it has none left."""

    def __init__(self, stream_id: int = 0) -> None:
        self.stream_id = stream_id
        self.free_at = 0
        self.stuck = False

    def query(self) -> bool:
        return not self.stuck


class ScriptedEvent:
    """Passed when the work before it is done; its device's clock has an origin of its own."""

    def __init__(self, device: ScriptedDevice) -> None:
        self._device = device
        self.at: int | None = None

    def record(self, stream: Stream) -> None:
        if self._device.lost:
            raise RuntimeError("device lost")
        self._device.recorded += 1
        self._device.now += self._device.record_ns
        self.at = max(stream.free_at, self._device.now)

    def query(self) -> bool:
        self._device.asked()
        if self._device.lost:
            raise RuntimeError("device lost")
        return self.at is not None and self.at <= self._device.now

    def elapsed_time(self, end: ScriptedEvent) -> float:
        assert self.at is not None and end.at is not None
        assert self.query() and end.query()
        return float(np.float32((end.at - self.at) * self._device.rate / 1e6))


class ScriptedDevice:
    """The host's clock, a stream and a backend that uses them; all in ns."""

    def __init__(self, now: int = 10**12) -> None:
        self.now = now
        self.rate = 1.0
        self.stream = Stream()
        self.current = self.stream
        self.capturing = False
        self.lost = False
        self.recorded = 0
        self.record_ns = 0
        """What the host spends on the record of an event."""
        self.asked: Callable[[], None] = lambda: None
        """Called for each query of an event."""
        self.backend = Backend(
            kind="scripted",
            new_event=lambda: ScriptedEvent(self),
            current_stream=lambda: self.current,
            is_capturing=lambda: self.capturing,
            prepare_thread=lambda: True,
        )

    def clock(self) -> int:
        return self.now

    def host(self, ns: int) -> None:
        """Let the host compute."""
        self.now += ns

    def work(self, ns: int) -> None:
        """Enqueue work."""
        self.stream.free_at = max(self.stream.free_at, self.now) + ns

    def synchronise(self) -> None:
        """Let the host wait for the stream, as a trainer does that reads its loss."""
        self.now = max(self.now, self.stream.free_at)


def ignore(reason: Any) -> None:
    """A `failed` that no one asks."""
