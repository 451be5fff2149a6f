"""This process's accelerator, of any type that torch supports; nothing here initialises one."""

from __future__ import annotations

import sys
from typing import Any


def in_use() -> str | None:
    """Return the accelerator type that this process has initialised; None without one or torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "accelerator"):
        return None
    # torch's build target: a check for a real device would create a context on some devices.
    accelerator = torch.accelerator.current_accelerator(check_available=False)
    if accelerator is None:
        return None
    kind = str(accelerator.type)
    initialised = getattr(torch.get_device_module(kind), "is_initialized", None)
    if initialised is None or not initialised():
        return None
    return kind if has_context(kind, torch.accelerator.current_device_index()) else None


def has_context(kind: str, index: int) -> bool:
    """Return whether this process has a device context: recording an event would create one.

    On CUDA, a process that only read a device's name is initialised and has no context.
    """
    torch: Any = sys.modules["torch"]
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None) if kind == "cuda" else None
    return ask is None or bool(ask(index))


def is_capturing(kind: str) -> bool:
    """Return whether this thread's work on a device with type `kind` is captured into a graph."""
    import torch

    module: Any = torch.get_device_module(kind)
    capturing = getattr(module, "is_current_stream_capturing", None)
    return capturing is not None and bool(capturing())
