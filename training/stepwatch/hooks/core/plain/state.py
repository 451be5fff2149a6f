"""What a step reads of the recorder and of its thread: their base classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class State:
    """What a step reads of the recorder."""

    ring: Any
    timeline: Any
    thread: Any
    drain_completions: Callable[[], None] | None
    step_number: int
    began: bool


class Thread:
    """A thread's number: its `threading.get_ident()`."""

    __slots__ = ("ident",)

    ident: int
