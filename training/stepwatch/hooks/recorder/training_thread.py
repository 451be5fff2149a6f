"""The training thread: work on other threads belongs to no step."""

from __future__ import annotations

import sys
import threading
from typing import Any

from stepwatch.hooks.core import Thread


class TrainingThread(Thread):
    """The thread that runs a rank's steps; at first the one that creates this object."""

    __slots__ = ()

    def __init__(self) -> None:
        self.ident = threading.get_ident()
        """Its `threading.get_ident()`; the thread that begins a step stores its own."""

    def is_current(self) -> bool:
        """Return whether the caller is in it, or in an autograd thread while it waits in backward.

        On a device the engine calls a backward's hooks from its own native threads.
        """
        return threading.get_ident() == self.ident or _is_autograd_worker()


def _is_autograd_worker() -> bool:
    """Return whether a native thread runs backward here; one of Python's threads is not training's.

    A native thread was not started by `threading`: unknown to it, or known as a dummy.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or torch._C._current_graph_task_id() < 0:
        return False
    ident = threading.get_ident()
    thread = next(
        (candidate for candidate in threading.enumerate() if candidate.ident == ident), None
    )
    return thread is None or isinstance(thread, threading._DummyThread)
