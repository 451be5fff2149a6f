"""Asks what may not answer in a thread of its own, and waits for it no longer than it should."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from stepwatch.signals.clock import NANOSECONDS, Clock

PATIENCE_SECONDS = 0.2
"""How long one read waits for a file server; healthy ones answer in milliseconds."""


class Reply(NamedTuple):
    """What a mount answered, None if nothing yet, and after how many seconds it did or did not."""

    answer: os.statvfs_result | OSError | None
    seconds: float


class _Question:
    def __init__(self, asked_ns: int) -> None:
        self.asked_ns = asked_ns
        self.ended = threading.Event()
        self.ended_ns = 0
        self.answer: os.statvfs_result | OSError | None = None


class Impatient:
    """Calls `statvfs` on mounts, at most one call for each at a time."""

    def __init__(self, statvfs: Callable[[str], os.statvfs_result], clock: Clock) -> None:
        self._statvfs = statvfs
        self._clock = clock
        self._questions: dict[str, _Question] = {}

    def ask(self, path: str) -> Reply:
        """The reply of a mount: one that came since the last call, or what there is by now."""
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
