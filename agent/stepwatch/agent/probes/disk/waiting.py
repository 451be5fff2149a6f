"""Calls that may block run in their own thread, and the caller waits for a bounded time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from stepwatch.signals.clock import NANOSECONDS, Clock

PATIENCE_SECONDS = 0.2
"""Seconds that one read waits for a file server; healthy ones answer in milliseconds."""


class Reply(NamedTuple):
    """A mount's answer, None while pending, and the seconds until the answer or until now."""

    answer: os.statvfs_result | OSError | None
    seconds: float


class _Question:
    def __init__(self, asked_ns: int) -> None:
        self.asked_ns = asked_ns
        self.ended = threading.Event()
        self.ended_ns = 0
        self.answer: os.statvfs_result | OSError | None = None


class Impatient:
    """Call `statvfs` on mounts, with at most one pending call per mount."""

    def __init__(self, statvfs: Callable[[str], os.statvfs_result], clock: Clock) -> None:
        self._statvfs = statvfs
        self._clock = clock
        self._questions: dict[str, _Question] = {}

    def ask(self, path: str) -> Reply:
        """Return a mount's reply: one that arrived since the last call, or the pending state."""
        question = self._questions.get(path)
        is_new = question is None
        if question is None:
            question = self._questions[path] = _Question(self._clock.monotonic_ns())
            threading.Thread(target=self._call, args=(path, question), daemon=True).start()
        if not question.ended.wait(PATIENCE_SECONDS if is_new else 0.0):
            return Reply(None, (self._clock.monotonic_ns() - question.asked_ns) / NANOSECONDS)
        del self._questions[path]
        return Reply(question.answer, (question.ended_ns - question.asked_ns) / NANOSECONDS)

    def _call(self, path: str, question: _Question) -> None:
        try:
            question.answer = self._statvfs(path)
        except OSError as error:
            question.answer = error
        question.ended_ns = self._clock.monotonic_ns()
        question.ended.set()
