"""Shares with their intervals, of answers and of verdicts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .statistics import wilson

Document = Mapping[str, Any]


def share(hits: int, of: int) -> list[float]:
    """[hits, of, low, high] with Wilson's interval."""
    return [hits, of, *wilson(hits, of)]


def found_of(answers: Sequence[Document]) -> list[float]:
    """How many of these faults were found."""
    return share(sum(each["found"] for each in answers), len(answers))


def right(answers: Iterable[Document], name: str) -> list[float]:
    """How many of the verdicts on which it counts named the right one."""
    known = [each[name] for each in answers if each[name] is not None]
    return share(sum(known), len(known))


def in_words(counted: Sequence[float]) -> str:
    """As `hits/of`, empty of nothing."""
    return f"{counted[0]:.0f}/{counted[1]:.0f}" if counted[1] else ""
