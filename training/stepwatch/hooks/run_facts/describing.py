"""Writes a run's facts, once, on rank 0."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import LifecycleEvent, piece_texts

Finder = Callable[[Mapping[str, str]], Iterable[tuple[str, Any]]]
MOST_RECORDS = 1024
"""Fact records: a ring holds four times as many, and the collector keeps so many."""
PARTS = ("config", "model", "code", "data", "environment", "owner")


class Describing:
    """Keeps the trainer's description until the rank is known, then writes FACT records."""

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._facts: list[tuple[str, str]] = []
        self._is_known = False
        self._records = 0
        """Written so far."""

    @guarded()
    def describe(self, parts: dict[str, Any]) -> None:
        """Write the run's settings: now if the rank is known, else after the first step."""
        if self._recorder.timeline is None:
            return
        for part, values in parts.items():
            if part in PARTS:
                self._facts += self._flat(part, values) or []
            else:
                self.guard.misuse(f"describe(): no part {part!r}; write {', '.join(PARTS)}")
        if self._is_known:
            self._write()

    @guarded()
    def first_step_ended(self) -> None:
        """Write facts found and described: the rank is known, and its libraries are loaded."""
        self._is_known = True
        if self._is_first() and self._recorder.timeline is not None:
            from .finders import FINDERS  # not loaded on other ranks

            facts = [
                fact
                for part, finder in FINDERS.items()
                for fact in self._flat(part, self._find(finder) or {}) or []
            ]
            self._facts = facts + self._facts  # the user's description is newer
        self._write()

    @guarded()
    def _flat(self, part: str, values: Any) -> list[tuple[str, str]]:
        from .flatten import flatten  # not loaded unless a Watch records

        return [*flatten(values, part)]

    @guarded()
    def _find(self, finder: Finder) -> dict[str, Any]:
        return dict(finder(os.environ))

    def _write(self) -> None:
        facts, self._facts = self._facts, []
        if not self._is_first():
            return
        left_out = 0
        for fact in facts:
            texts = piece_texts(fact)
            if self._records + len(texts) > MOST_RECORDS:
                left_out += 1
                continue
            self._records += len(texts)
            for index, text in enumerate(texts):
                self._recorder.write_lifecycle(LifecycleEvent.FACT, index, text)
        if left_out:
            self.guard.misuse(
                f"describe(): {left_out} settings are left out: {MOST_RECORDS:,} records of them "
                "are kept of a run; describe fewer"
            )

    def _is_first(self) -> bool:
        ring = self._recorder.ring
        return ring is not None and ring.identity.rank == 0 and not self._recorder.is_child()
