"""Which thread trains: what other threads do beside it belongs to no step."""

from __future__ import annotations

import sys
import threading
from typing import Any


class TrainingThread:
    """The thread that runs the steps of a rank; at first the one that makes this object."""

    __slots__ = ("ident",)

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        """Its `threading.get_ident()`; whoever begins a step stores its own."""

    def is_current(self) -> bool:
        """Whether the caller runs in it, or in a thread of autograd's while it waits in backward.

        On a device the engine calls the hooks of a backward from native threads of its own.
        """
        return threading.get_ident() == self.ident or _is_autograd_worker()


def _is_autograd_worker() -> bool:
    """Whether a native thread runs backward here; on a thread of Python's own it is not training's.

    A native thread is none that `threading` started: unknown to it, or known as a dummy.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or torch._C._current_graph_task_id() < 0:
        return False
    ident = threading.get_ident()
    thread = next(
        (candidate for candidate in threading.enumerate() if candidate.ident == ident), None
    )
    return thread is None or isinstance(thread, threading._DummyThread)
