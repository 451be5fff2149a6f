"""Functions of other packages, replaced while a Watch records and put back when it closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Replacements:
    """What was replaced where; each is put back unless somebody replaced it again."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Function, Function]] = []

    def put(self, owner: Any, name: str, make: Callable[[Function], Function]) -> None:
        """Replace `owner.name` by what `make` returns for it; nothing where there is no such."""
        current = vars(owner).get(name)
        if not callable(current):
            return
        # What is imported from a module where it was replaced already is the replacement.
        inner = next((entry[2] for entry in self._replaced if entry[3] is current), current)
        # Two names of one function keep being one: pickle finds a function by its name.
        outer = next((entry[3] for entry in self._replaced if entry[2] is inner), None) or make(
            inner
        )
        setattr(owner, name, outer)
        self._replaced.append((owner, name, inner, outer))

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._replaced:
            owner, name, inner, outer = self._replaced.pop()
            if vars(owner).get(name) is outer:
                setattr(owner, name, inner)
