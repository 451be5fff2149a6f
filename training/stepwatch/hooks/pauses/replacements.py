"""Other packages' functions, replaced while a Watch records and restored when it closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Replacements:
    """The replaced functions; each is restored unless it was replaced again."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Function, Function]] = []

    def put(self, owner: Any, name: str, make: Callable[[Function], Function]) -> None:
        """Replace `owner.name` by the result of `make`; do nothing if it does not exist."""
        current = vars(owner).get(name)
        if not callable(current):
            return
        # A name imported from a module after its replacement is the replacement.
        inner = next((entry[2] for entry in self._replaced if entry[3] is current), current)
        # Two names of one function stay equal: pickle finds a function by its name.
        outer = next((entry[3] for entry in self._replaced if entry[2] is inner), None) or make(
            inner
        )
        setattr(owner, name, outer)
        self._replaced.append((owner, name, inner, outer))

    def undo(self) -> None:
        """Restore everything, the last first."""
        while self._replaced:
            owner, name, inner, outer = self._replaced.pop()
            if vars(owner).get(name) is outer:
                setattr(owner, name, inner)
