"""Asks what may not answer in a thread of its own, and waits for it no longer than it should."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from stepwatch.signals.clock import NANOSECONDS, Clock

PATIENCE_SECONDS = 1.0
"""How long one read waits for a file server; healthy ones answer in milliseconds."""


class _Question:
    def __init__(self, asked_ns: int) -> None:
        self.asked_ns = asked_ns
        self.ended = threading.Event()
        self.answer: os.statvfs_result | OSError | None = None


class Impatient:
    """Calls `statvfs` on mounts, at most one call for each at a time."""

    def __init__(self, statvfs: Callable[[str], os.statvfs_result], clock: Clock) -> None:
        self._statvfs = statvfs
        self._clock = clock
        self._asked: dict[str, _Question] = {}

    def ask(self, path: str) -> os.statvfs_result:
        """The answer for a mount.

        Raises:
            OSError: it has none, or none yet.
        """
        question = self._asked.get(path)
        is_new = question is None
        if question is None:
            question = self._asked[path] = _Question(self._clock.monotonic_ns())
            threading.Thread(target=self._call, args=(path, question), daemon=True).start()
        if not question.ended.wait(PATIENCE_SECONDS if is_new else 0.0):
            seconds = (self._clock.monotonic_ns() - question.asked_ns) / NANOSECONDS
            raise OSError(f"no answer for {seconds:.0f} s")
        del self._asked[path]
        if isinstance(question.answer, OSError):
            raise question.answer
        assert question.answer is not None
        return question.answer

    def _call(self, path: str, question: _Question) -> None:
        try:
            question.answer = self._statvfs(path)
        except OSError as error:
            question.answer = error
        question.ended.set()
