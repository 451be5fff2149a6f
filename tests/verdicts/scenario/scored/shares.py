"""Shares with their intervals, of answers and of verdicts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .statistics import wilson

Document = Mapping[str, Any]


def share(hits: int, total: int) -> list[float]:
    """[hits, of, low, high] with Wilson's interval."""
    return [hits, total, *wilson(hits, total)]


def found_of(answers: Sequence[Document]) -> list[float]:
    """How many of these faults were found."""
    return share(sum(answer["found"] for answer in answers), len(answers))


def right(answers: Iterable[Document], name: str) -> list[float]:
    """How many of the verdicts on which it counts named the right one."""
    outcomes = [answer[name] for answer in answers if answer[name] is not None]
    return share(sum(outcomes), len(outcomes))


def in_words(counted: Sequence[float]) -> str:
    """As `hits/of`, empty of nothing."""
    return f"{counted[0]:.0f}/{counted[1]:.0f}" if counted[1] else ""
