"""The memory of the rank's device, as its allocator counts it: rare host calls only."""

from __future__ import annotations

from stepwatch.signals.records import Kind

from .accelerators import in_use
from .guard import guarded
from .recorder.recorder import Recorder

EVERY_NS = 5_000_000_000
"""Least time between two readings: growth that ends in an hour shows in one minute's readings."""


class DeviceMemory:
    """Writes MEMORY records on a rank that uses an accelerator; none on other ranks."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._due_ns = 0
        self._unknown = False
        self._limits: dict[int, int] = {}

    @guarded()
    def end_step(self, step: int, now_ns: int) -> None:
        """Read the allocator if a reading is due."""
        if now_ns < self._due_ns or self._unknown:
            return
        self._due_ns = now_ns + EVERY_NS
        if in_use() is None or self._recorder.ring is None:
            return
        try:
            facts = self._read()
        except RuntimeError:  # a backend whose allocator does not count
            self._unknown = True
            return
        self._recorder.ring.write(Kind.MEMORY, step, now_ns, *facts)

    def _read(self) -> tuple[int, int, int, int]:
        import torch

        accelerator = torch.accelerator
        device = accelerator.current_device_index()
        if device not in self._limits:
            self._limits[device] = _limit_bytes(device)
        allocated = accelerator.memory_allocated(device)
        return device, allocated, accelerator.memory_reserved(device), self._limits[device]


def _limit_bytes(device: int) -> int:
    """Return a device's memory; 0 if its backend does not report it."""
    import torch

    kind = in_use()
    if kind == "cuda":  # get_memory_info creates a context
        return int(torch.cuda.get_device_properties(device).total_memory)
    info = getattr(torch.accelerator, "get_memory_info", None)  # torch 2.10 may lack it
    return 0 if info is None else int(info(device)[1])
