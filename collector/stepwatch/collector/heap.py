"""The process's heap, as the system's allocator holds it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def release_free_memory() -> None:
    """Return the allocator's free pages to the system; without glibc, do nothing.

    glibc keeps freed memory below the newest allocation of each arena, however much it is.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim
