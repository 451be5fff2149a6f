"""Memory of the rank's device, as its allocator counts it: host calls only, now and then."""

from __future__ import annotations

import sys

from stepwatch.signals.records import Kind

from .guard import guarded
from .recorder.recorder import Recorder

EVERY_NS = 5_000_000_000
"""Least time between two readings: growth that ends in an hour shows in a minute of them."""


class DeviceMemory:
    """Writes MEMORY records of a rank that uses CUDA; none on a rank that does not."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._due_ns = 0
        self._limits: dict[int, int] = {}

    @guarded()
    def end_step(self, step: int, now_ns: int) -> None:
        """Read the allocator if a reading is due."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + EVERY_NS
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_initialized() or self._recorder.ring is None:
            return
        device = torch.cuda.current_device()
        if device not in self._limits:
            self._limits[device] = int(torch.cuda.get_device_properties(device).total_memory)
        allocated = torch.cuda.memory_allocated(device)
        reserved = torch.cuda.memory_reserved(device)
        facts = (device, allocated, reserved, self._limits[device])
        self._recorder.ring.write(Kind.MEMORY, step, now_ns, *facts)
