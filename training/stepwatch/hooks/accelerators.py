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
    found = torch.accelerator.current_accelerator(check_available=False)
    if found is None:
        return None
    initialised = getattr(torch.get_device_module(found.type), "is_initialized", None)
    return str(found.type) if initialised is not None and initialised() else None


def is_capturing(kind: str) -> bool:
    """Whether what this thread enqueues on a device of type `kind` becomes part of a graph now."""
    import torch

    module: Any = torch.get_device_module(kind)
    capturing = getattr(module, "is_current_stream_capturing", None)
    return capturing is not None and bool(capturing())
