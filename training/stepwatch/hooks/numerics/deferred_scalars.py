"""Scalars that a trainer records: read at once from host memory, late from a device.

Reading a device tensor at once would synchronise. It is copied to pinned memory on the trainer's
own stream instead, and read when an event shows that the copy is complete.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stepwatch.hooks.accelerators import is_capturing
from stepwatch.signals.records import UNKNOWN_FLOAT

_LARGEST = float(np.finfo(np.float32).max)
"""STEP records hold float32."""


class DeviceTensor:
    """A small tensor on its way from an accelerator to pinned memory, behind its stream's work.

    Do not create one while the thread captures a graph: that would end the capture.
    """

    __slots__ = ("_event", "_host", "_kind")

    def __init__(self, tensor: Any) -> None:
        import torch

        source = tensor.detach()
        self._kind = source.device.type
        self._host = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=True)
        self._host.copy_(source, non_blocking=True)
        self._event = _recorded(source.device)

    def ready(self) -> bool:
        """Return whether the copy is complete; never waits, and returns False in a capture."""
        if is_capturing(self._kind):
            return False
        try:
            return bool(self._event.query())
        except RuntimeError:  # a device that failed: the trainer meets the error itself
            return False

    def host(self) -> Any:
        """Return the copy; its content is valid once it is ready."""
        return self._host


def _recorded(device: Any) -> Any:
    """Record an event behind the work that is enqueued on `device`'s current stream.

    That may not be the current device: torch's generic events then switch devices in a way that
    creates a context there, and CUDA's events do not.
    """
    import torch

    if device.type == "cuda":
        cuda: Any = torch.cuda
        event = cuda.Event()
        event.record(cuda.current_stream(device))
        return event
    event = torch.Event(device)
    event.record(torch.accelerator.current_stream(device))
    return event


class DeviceScalar(DeviceTensor):
    """An accelerator's one-element tensor on its way to the host."""

    __slots__ = ()

    def value(self) -> float:
        """Return the number."""
        return float(self._host)


Scalar = float | DeviceScalar


def scalar(value: Any) -> Scalar:
    """Accept a float, an int, a numpy number or a one-element tensor, on any device.

    A tensor on a device whose graph is captured now is unknown: a replay computes it.

    Raises:
        ValueError: the tensor has several elements, or is a DTensor whose ranks hold different
            parts: reading it would start a collective.
    """
    if isinstance(value, int | float | np.number):
        return float(value)
    placements = getattr(value, "placements", None)
    if placements is not None:
        if not all(placement.is_replicate() for placement in placements):
            raise ValueError("record value.full_tensor(): a sharded value needs a collective")
        value = value.to_local()
    if value.numel() != 1:
        raise ValueError(f"record one number, not a tensor of shape {tuple(value.shape)}")
    if value.device.type != "cpu":
        return UNKNOWN_FLOAT if is_capturing(value.device.type) else DeviceScalar(value)
    return float(value.detach())


def as_float32(value: float) -> float:
    """Return `value` within float32's range: beyond it, infinity; NaN stays NaN."""
    if -_LARGEST <= value <= _LARGEST or math.isnan(value):
        return value
    return math.copysign(math.inf, value)


def is_ready(scalar: Scalar) -> bool:
    """Return whether the number can be read without waiting."""
    return isinstance(scalar, float | int) or scalar.ready()


def read(scalar: Scalar) -> float:
    """Return the number; NaN while it is still on its way."""
    if isinstance(scalar, float | int):
        return scalar
    return scalar.value() if scalar.ready() else UNKNOWN_FLOAT
