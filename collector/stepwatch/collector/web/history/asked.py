"""The parameters of a request for history, each within its bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

from starlette.datastructures import QueryParams

LATEST_S = 9e9
"""In nanoseconds it still fits the databases' integers."""
LEAST_POINTS, POINTS, MOST_POINTS = 50, 600, 4000
"""Points per curve: a phone's width, the default, and a 4K screen's width."""
_MOST_ATTEMPT = (1 << 32) - 1
"""An attempt has 32 bits."""
MOST_METRICS, MOST_NAME = 16, 300
"""Metrics per answer, and characters in a name."""


class Range(NamedTuple):
    """A range of Unix seconds, infinite where it is open, and the most points in it."""

    from_s: float
    to_s: float
    points: int


def range_of(query: QueryParams) -> Range:
    """Return the range in `from`, `to` and `points`.

    Raises:
        ValueError: a parameter is out of bounds.
    """
    from_s = moment_of(query, "from", -math.inf)
    to_s = moment_of(query, "to", math.inf)
    if not from_s < to_s:
        raise ValueError("from must be before to")
    return Range(from_s, to_s, whole_of(query, "points", POINTS, (LEAST_POINTS, MOST_POINTS)))


def metrics_of(query: QueryParams) -> list[str]:
    """Return the names in `metric`, each once.

    Raises:
        ValueError: there are too many, or one is too long.
    """
    names = [*dict.fromkeys(query.getlist("metric"))]
    if len(names) > MOST_METRICS or any(not 0 < len(name) <= MOST_NAME for name in names):
        raise ValueError(
            f"give at most {MOST_METRICS} metrics, each of 1 to {MOST_NAME} characters"
        )
    return names


def attempt_of(query: QueryParams) -> int | None:
    """Return the number in `attempt`; None without it.

    Raises:
        ValueError: the parameter is no attempt number.
    """
    return whole_of(query, "attempt", 0, (0, _MOST_ATTEMPT)) if "attempt" in query else None


def moment_of(query: QueryParams, name: str, default: float) -> float:
    """Return a parameter in Unix seconds.

    Raises:
        ValueError: the parameter is no moment.
    """
    text = query.get(name)
    if text is None:
        return default
    try:
        moment = float(text)
    except ValueError:
        moment = math.nan
    if not 0 <= moment <= LATEST_S:
        raise ValueError(f"{name} must be Unix seconds")
    return moment


def whole_of(query: QueryParams, name: str, default: int, bounds: tuple[int, int]) -> int:
    """Return a whole number within its bounds, both included.

    Raises:
        ValueError: the parameter is no such number.
    """
    text = query.get(name)
    if text is None:
        return default
    least, most = bounds
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most):
        raise ValueError(f"{name} must be a whole number from {least} to {most}")
    return int(text)


def word_of(query: QueryParams, name: str, words: tuple[str, ...]) -> str:
    """Return the chosen word; the first of `words` is the default.

    Raises:
        ValueError: the parameter is another word.
    """
    word = query.get(name, words[0])
    if word not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}")
    return word
