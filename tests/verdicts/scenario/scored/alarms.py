"""False incidents: how many a day of healthy jobs, and in which. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from stepwatch.cli import text

from .shares import Document
from .statistics import poisson

DAY_SECONDS = 86_400.0
_MOST_ROWS = 12


def days(done: Iterable[Document]) -> float:
    """Job-days of these scenarios."""
    return float(sum(one["seconds"] for one in done) / DAY_SECONDS)


def rate(events: int, of_days: float) -> list[float]:
    """[a day, low, high] with the exact interval of 95 % of a count; NaN of no time."""
    return [_per(each, of_days) for each in (events, *poisson(events))]


def _per(events: float, of_days: float) -> float:
    return events / of_days if of_days else math.nan


def tables(done: Sequence[Document]) -> str:
    """False incidents by kind, and a day of healthy jobs by what they are."""
    return "\n\n".join([_by_kind(done), _by_job(done)])


def _by_kind(done: Sequence[Document]) -> str:
    counts = Counter(
        ("healthy" if one["healthy"] else "with a fault", kind)
        for one in done
        for kind in one["false_kinds"]
    )
    spans = {
        "healthy": days(one for one in done if one["healthy"]),
        "with a fault": days(one for one in done if not one["healthy"]),
    }
    rows = [
        [*key, str(count), *_in_words(rate(count, spans[key[0]]))]
        for key, count in counts.most_common(_MOST_ROWS)
    ]
    return text.table(
        ["false incidents in jobs", "kind", "n", "a job-day", "interval"], rows, "", left_columns=2
    )


_JOBS: dict[str, Callable[[Document], str]] = {
    "pace": lambda one: str(one["pace"]),
    "shape": lambda one: str(one["shape"]),
    "ranks": lambda one: f"{one['ranks']} ranks",
}


def _by_job(done: Sequence[Document]) -> str:
    healthy = [one for one in done if one["healthy"]]
    rows = []
    for name_of in _JOBS.values():
        for name in sorted({name_of(one) for one in healthy}):
            mine = [one for one in healthy if name_of(one) == name]
            count = sum(len(one["false_kinds"]) for one in mine)
            rows.append(
                [name, f"{days(mine):.2f}", str(count), *_in_words(rate(count, days(mine)))]
            )
    return text.table(
        ["healthy jobs", "job-days", "false", "a job-day", "interval"], rows, "", left_columns=1
    )


def _in_words(known: Sequence[float]) -> list[str]:
    if math.isnan(known[0]):
        return ["", ""]
    return [f"{known[0]:.3g}", f"{known[1]:.3g} to {known[2]:.3g}"]
