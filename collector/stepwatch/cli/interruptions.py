"""Ctrl-C and SIGTERM handling for commands with child processes: one signal is enough."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt within the context, as Ctrl-C does.

    Only the first signal counts. From then on both signals are ignored, even after the context
    exits: only the shutdown remains.
    """
    previous = _handled(_interrupted)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _interrupted:
            _restored(previous)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM within the context, so that no child process is left running."""
    with handled_by(signal.SIG_IGN):
        yield


@contextmanager
def handled_by(handler: signal._HANDLER) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM with `handler` within the context."""
    previous = _handled(handler)
    try:
        yield
    finally:
        _restored(previous)


_Handlers = dict[signal.Signals, "signal._HANDLER"]


def _handled(handler: signal._HANDLER) -> _Handlers:
    return {number: signal.signal(number, handler) for number in _ENDINGS}


def _restored(previous: _Handlers) -> None:
    for number, handler in previous.items():
        signal.signal(number, handler)


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    for number in _ENDINGS:
        signal.signal(number, _ignored)
    raise KeyboardInterrupt


def _ignored(_number: int, _frame: FrameType | None) -> None:
    """Do nothing; with SIG_IGN Python prints a traceback if a signal is pending."""
