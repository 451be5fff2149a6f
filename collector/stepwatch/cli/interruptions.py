"""Ctrl-C and SIGTERM of a command that has processes to end: one of them is enough."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt as Ctrl-C does; the first of them is cleaned up after.

    From then on both stay ignored, also when this is over: what is left to do is to end.
    """
    previous = _handled(_interrupted)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _interrupted:
            _restored(previous)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Neither Ctrl-C nor SIGTERM ends what runs inside: no process must be left behind."""
    with handled_by(signal.SIG_IGN):
        yield


@contextmanager
def handled_by(handler: signal._HANDLER) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `handler` inside."""
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
    """Not SIG_IGN: Python prints a traceback where a signal is pending while that is set."""
