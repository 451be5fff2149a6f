"""Functions of other packages, replaced while a Watch records and put back when it closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Replacements:
    """What was replaced where; each is put back unless somebody replaced it again."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Function, Function]] = []

    def put(self, owner: Any, name: str, make: Callable[[Function], Function]) -> None:
        """Replace `owner.name` by what `make` returns for it; nothing where there is no such."""
        inner = vars(owner).get(name)
        if callable(inner):
            outer = make(inner)
            setattr(owner, name, outer)
            self._made.append((owner, name, inner, outer))

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._made:
            owner, name, inner, outer = self._made.pop()
            if vars(owner).get(name) is outer:
                setattr(owner, name, inner)
