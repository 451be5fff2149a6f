"""The action of each fault when it is due."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable
from typing import Any

from .specs import Fault, FlipBit, GilLock, Hang, Kill, MemoryGrowth, NanGradients, Slowness, Stop

_PAGE_BYTES = 4096
_LONGEST_USLEEP = 0xFFFFFFFF


def trigger(fault: Fault, grown_memory: list[bytearray]) -> bool:
    """Perform the fault's action at its point; return whether it may trigger again.

    `grown_memory` holds the memory that a rank with memory growth has allocated.
    """
    if isinstance(fault, Slowness):
        time.sleep(fault.seconds)
        return True
    if isinstance(fault, MemoryGrowth):
        block = bytearray(fault.nbytes)
        block[::_PAGE_BYTES] = b"\x01" * len(block[::_PAGE_BYTES])
        grown_memory.append(block)
        return True
    if isinstance(fault, GilLock):
        # PyDLL, unlike CDLL, keeps the interpreter lock during the call.
        ctypes.PyDLL(None).usleep(min(int(fault.seconds * 1e6), _LONGEST_USLEEP))
    elif isinstance(fault, Hang):
        time.sleep(fault.seconds)
    elif isinstance(fault, Stop):
        os.kill(os.getpid(), signal.SIGSTOP)
    elif isinstance(fault, Kill):
        os.kill(os.getpid(), signal.SIGKILL)
    return False


def first_with_elements(tensors: Iterable[Any]) -> Any:
    """Return this rank's piece of the first tensor with local elements; None without one."""
    return next((local for local in map(_local, tensors) if local.numel()), None)


def corrupt(fault: Fault, local: Any) -> None:
    """Change the first element of `local` in place."""
    import torch

    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    with torch.no_grad():
        first = local[(slice(0, 1),) * local.dim()]
        if isinstance(fault, NanGradients):
            first.fill_(float("nan"))
        elif isinstance(fault, FlipBit):
            width = 8 * local.element_size()
            bit = torch.ones((), dtype=integers[local.element_size()]) << fault.bit % width
            value = first.contiguous().view(bit.dtype) ^ bit.to(first.device)
            first.copy_(value.view(first.dtype))


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
