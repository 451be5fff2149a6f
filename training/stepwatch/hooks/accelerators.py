"""The accelerator of this process, whichever torch knows; nothing here initialises one."""

from __future__ import annotations

import sys
from typing import Any


def in_use() -> str | None:
    """Type of the accelerator that this process has initialised; None without one, or torch."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "accelerator"):
        return None
    # What torch was built for: to ask whether there is one would make a context on some devices.
    accelerator = torch.accelerator.current_accelerator(check_available=False)
    if accelerator is None:
        return None
    kind = str(accelerator.type)
    initialised = getattr(torch.get_device_module(kind), "is_initialized", None)
    if initialised is None or not initialised():
        return None
    return kind if has_context(kind, torch.accelerator.current_device_index()) else None


def has_context(kind: str, index: int) -> bool:
    """Whether this process works on a device already: to record an event would make a context.

    On CUDA, one that only asked for a device's name is initialised and has none.
    """
    torch: Any = sys.modules["torch"]
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None) if kind == "cuda" else None
    return ask is None or bool(ask(index))


def is_capturing(kind: str) -> bool:
    """Whether what this thread enqueues on a device of type `kind` becomes part of a graph now."""
    import torch

    module: Any = torch.get_device_module(kind)
    capturing = getattr(module, "is_current_stream_capturing", None)
    return capturing is not None and bool(capturing())
