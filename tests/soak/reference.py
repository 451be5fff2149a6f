"""An undisturbed run of the same stream: a collector of its own, on a controlled clock.

It receives the segments in the order and at the moments of packing, and evaluates each second, as
an undisturbed collector does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store

from .log import StoredLog

_SECOND = 1_000_000_000
_BATCH_SEGMENTS = 64
_AFTERWARDS_SECONDS = 20
"""Time after the last segment, in which ended incidents close."""


class MovedClock:
    """A clock that tests set; both of its times move together."""

    def __init__(self, wall_ns: int) -> None:
        self.now_ns = wall_ns
        self._began_ns = wall_ns - 3600 * _SECOND

    def wall_ns(self) -> int:
        """Wall nanoseconds."""
        return self.now_ns

    def monotonic_ns(self) -> int:
        """Monotonic nanoseconds."""
        return self.now_ns - self._began_ns


def undisturbed_incidents(
    log: StoredLog, job: str, note: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The incidents of a collector that received the log without any disturbance."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.sqlite(Path(folder) / "reference.db")
        clock = MovedClock(int(log.places["wall_ns"].min()))
        service = Service(store, clock)
        _replay(service, clock, log, note)
        incidents = store.incidents.newest(job)
        store.close()
    return incidents


def _replay(
    service: Service, clock: MovedClock, log: StoredLog, note: Callable[[str], None]
) -> None:
    began, due = clock.now_ns, clock.now_ns + _SECOND
    body: list[bytes] = []
    for wall_ns, data in log.bodies():
        if len(body) == _BATCH_SEGMENTS or wall_ns >= due:
            service.receive(b"".join(body))
            body = []
        while wall_ns >= due:
            clock.now_ns, due = due, due + _SECOND
            service.evaluate()
            note(f"undisturbed run: {(due - began) // _SECOND} s of the stream evaluated")
        clock.now_ns = max(clock.now_ns, wall_ns)
        body.append(data)
    service.receive(b"".join(body))
    for _ in range(_AFTERWARDS_SECONDS):
        clock.now_ns += _SECOND
        service.evaluate()
