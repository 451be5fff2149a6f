"""Shares of answers and verdicts, with their intervals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .statistics import wilson

Document = Mapping[str, Any]


def share(hits: int, total: int) -> list[float]:
    """Return [hits, total, low, high] with Wilson's interval."""
    return [hits, total, *wilson(hits, total)]


def found_share(answers: Sequence[Document]) -> list[float]:
    """Return the share of these faults that were found."""
    return share(sum(answer["found"] for answer in answers), len(answers))


def right(answers: Iterable[Document], name: str) -> list[float]:
    """Return how many verdicts have the aspect `name` right, among those in which it counts."""
    outcomes = [answer[name] for answer in answers if answer[name] is not None]
    return share(sum(outcomes), len(outcomes))


def in_words(counted: Sequence[float]) -> str:
    """Return `hits/total`, empty without any."""
    return f"{counted[0]:.0f}/{counted[1]:.0f}" if counted[1] else ""
