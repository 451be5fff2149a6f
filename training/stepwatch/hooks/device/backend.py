"""This process's accelerator as torch shows it; nothing here initialises one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from stepwatch.hooks.accelerators import has_context, is_capturing

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED from the CUDA driver API, "Stream Management"."""


class Event(Protocol):
    """A timing event: `torch.Event` with `enable_timing`."""

    def record(self, stream: Any) -> object:
        """Enqueue the event on `stream`."""

    def query(self) -> bool:
        """Return whether the device has passed it; never waits."""

    def elapsed_time(self, end: Any) -> float:
        """Return the milliseconds from this event to `end`; both were passed."""


class Backend(NamedTuple):
    """The device functions that device timing needs."""

    kind: str
    """The device's type, as torch names it."""
    new_event: Callable[[], Event]
    current_stream: Callable[[], Any]
    """The stream on which the calling thread enqueues now."""
    is_capturing: Callable[[], bool] | None
    """Whether the calling thread's work is captured into a graph now."""
    prepare_thread: Callable[[], bool]
    """Called once on another thread that will query events; False if it must not query."""
    stream_key: Callable[[], Any] | None = None
    """The key that identifies `current_stream`'s stream, if it is cheaper to get."""


def accelerator_of(model: Any) -> Any:
    """Return the device of the first accelerator parameter in `model`; None without one."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=False)
    parameters = (
        model.parameters() if accelerator is not None and hasattr(model, "parameters") else ()
    )
    devices = (parameter.device for parameter in parameters)
    return next(
        (
            device
            for device in devices
            if accelerator is not None and device.type == accelerator.type
        ),
        None,
    )


def open_backend(device: Any) -> Backend:
    """Return the backend for `device`, a `torch.device` or a type, after a test with two events.

    Raises:
        RuntimeError: it has no events that measure time.
        NotImplementedError: the same.
    """
    import torch

    where = torch.device(device)
    if where.index is None:
        where = torch.device(where.type, torch.accelerator.current_device_index())
    _check_place(where)
    module: Any = torch.get_device_module(where.type)

    def new_event() -> Any:
        return torch.Event(where, enable_timing=True)

    # The same call as in torch.accelerator.current_stream, without its microsecond of checks.
    ask: Any = getattr(torch._C, "_accelerator_getStream", torch.accelerator.current_stream)
    current_stream = functools.partial(ask, where.index)
    capturing = getattr(module, "is_current_stream_capturing", None)
    # This takes a fifth of the stream itself and its comparison, and each collective needs it.
    raw: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    key = functools.partial(raw, where.index) if raw is not None and where.type == "cuda" else None
    if not is_capturing(where.type):
        new_event().record(current_stream())
    prepare = functools.partial(prepare_thread, where)
    return Backend(where.type, new_event, current_stream, capturing, prepare, key)


def _check_place(where: Any) -> None:
    """Refuse a device that cannot be timed without a wait, or without a new context.

    Raises:
        RuntimeError: the reason.
    """
    import torch

    if where.type == "mps":  # its events wait for the device when they are compared
        raise RuntimeError("events of mps wait for the device")
    current = torch.accelerator.current_device_index()
    if where.index != current:  # an event switches devices, and creates a context on both
        raise RuntimeError(
            f"the model lies on {where}, the current device is {current}: set_device_index first"
        )
    if not has_context(where.type, where.index):
        raise RuntimeError(f"{where} is not in use yet")


def prepare_thread(device: Any) -> bool:
    """Let this thread query events on `device`; False if that could harm the trainer.

    A thread that names no device is on device 0 and would create a context there. Also, CUDA ends a
    graph capture if any other thread queries an event in the meantime, unless that thread has
    declared the relaxed capture mode before.
    """
    import ctypes  # loaded only if needed: a host-only trainer does without

    import torch

    torch.accelerator.set_device_index(device.index)
    if device.type != "cuda":
        return True
    if torch.version.hip:
        return False
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
        mode = ctypes.c_int(_RELAXED)
        return int(driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))) == 0
    except (OSError, AttributeError):
        return False
