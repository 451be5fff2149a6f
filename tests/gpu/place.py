"""The device of the checks: a GPU, or the CPU in a rehearsal, which shows that they run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

_cuda: Any = torch.cuda
"""Parts of it are not typed."""


@dataclass(frozen=True)
class Place:
    """A device and how large the work on it is."""

    kind: str
    """`cuda`, or `cpu` in a rehearsal."""

    @property
    def is_gpu(self) -> bool:
        """Whether this is a GPU."""
        return self.kind == "cuda"

    @property
    def width(self) -> int:
        """Width of a layer: on a GPU its matrix product takes 0.4 ms."""
        return 4096 if self.is_gpu else 64

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return 8192 if self.is_gpu else 32

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of weights and activations."""
        return torch.bfloat16 if self.is_gpu else torch.float32

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def spin(self, seconds: float) -> None:
        """Enqueue a kernel that takes about `seconds` of the device's time."""
        if self.is_gpu:
            _cuda._sleep(int(seconds * cycles_per_second()))
        else:
            time.sleep(seconds)

    def event(self) -> Any:
        """Return an event without timing; without a device one that has always passed."""
        return _cuda.Event() if self.is_gpu else _CompletedEvent()


class _CompletedEvent:
    def record(self) -> None:
        """Nothing runs ahead here."""

    def query(self) -> bool:
        """The work before it is done."""
        return True


_CYCLES: list[float] = []


def cycles_per_second() -> float:
    """Return the current clock of the device's processors, from a kernel with a known cycle
    count."""
    if not _CYCLES:
        for _ in range(3):  # the clock rises once there is work
            first, last = (_cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            _cuda._sleep(100_000_000)
            last.record()
            torch.cuda.synchronize()
            _CYCLES[:] = [100_000_000 / (first.elapsed_time(last) / 1e3)]
    return _CYCLES[0]
