"""A device for played sequences: its events pass, fail and are captured by their number alone."""

from __future__ import annotations

from typing import Any

from stepwatch.hooks.device.backend import Backend


class PlayedDevice:
    """Events that the device passes at the host's moment, in their order.

    From record number `fails_at` on the device fails. While `captures` divides the number of
    questions, a graph is captured; 0 is a device without graphs.
    """

    def __init__(self, clock: Any, captures: int, fails_at: int) -> None:
        self.clock = clock
        self.records, self._questions = 0, 0
        self._captures, self.fails_at = captures, fails_at

    def backend(self) -> Backend:
        """Return the functions that device timing calls."""
        return Backend(
            "played",
            lambda: PlayedEvent(self),
            lambda: "stream",
            self._is_capturing if self._captures else None,
            lambda: False,
        )

    def _is_capturing(self) -> bool:
        self._questions += 1
        return self._questions % self._captures == 0


class PlayedEvent:
    """An event of the played device."""

    def __init__(self, device: PlayedDevice) -> None:
        self._device = device
        self.at = 0

    def record(self, stream: Any) -> None:
        """Enqueue it."""
        device = self._device
        device.records += 1
        if device.records >= device.fails_at:
            raise RuntimeError("the device fell off the bus")
        self.at = device.clock() + device.records

    def query(self) -> bool:
        """Return whether the device has passed it."""
        return self._device.records % 3 != 0

    def elapsed_time(self, end: PlayedEvent) -> float:
        """Return the ms to `end`."""
        return (end.at - self.at) / 1e6
