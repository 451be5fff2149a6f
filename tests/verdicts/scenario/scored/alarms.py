"""False incidents: their number a day of healthy jobs, and their jobs. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from stepwatch.cli import text

from .shares import Document
from .statistics import poisson

DAY_SECONDS = 86_400.0
_MOST_ROWS = 12


def days(documents: Iterable[Document]) -> float:
    """Return the job-days of these scenarios."""
    return float(sum(document["seconds"] for document in documents) / DAY_SECONDS)


def rate(events: int, of_days: float) -> list[float]:
    """Return [a day, low, high] with the exact 95 % interval of a count; NaN for no time."""
    return [_per(count, of_days) for count in (events, *poisson(events))]


def _per(events: float, of_days: float) -> float:
    return events / of_days if of_days else math.nan


def tables(documents: Sequence[Document]) -> str:
    """Return false incidents by kind, and a day of healthy jobs by their properties."""
    return "\n\n".join([_by_kind(documents), _by_job(documents)])


def _by_kind(documents: Sequence[Document]) -> str:
    counts = Counter(
        ("healthy" if document["healthy"] else "with a fault", kind)
        for document in documents
        for kind in document["false_kinds"]
    )
    spans = {
        "healthy": days(document for document in documents if document["healthy"]),
        "with a fault": days(document for document in documents if not document["healthy"]),
    }
    rows = [
        [*key, str(count), *_in_words(rate(count, spans[key[0]]))]
        for key, count in counts.most_common(_MOST_ROWS)
    ]
    return text.table(
        ["false incidents in jobs", "kind", "n", "a job-day", "interval"], rows, "", left_columns=2
    )


_JOBS: dict[str, Callable[[Document], str]] = {
    "pace": lambda document: str(document["pace"]),
    "shape": lambda document: str(document["shape"]),
    "ranks": lambda document: f"{document['ranks']} ranks",
}


def _by_job(documents: Sequence[Document]) -> str:
    healthy = [document for document in documents if document["healthy"]]
    rows = []
    for name_of in _JOBS.values():
        for name in sorted({name_of(document) for document in healthy}):
            group = [document for document in healthy if name_of(document) == name]
            count = sum(len(document["false_kinds"]) for document in group)
            rows.append(
                [name, f"{days(group):.2f}", str(count), *_in_words(rate(count, days(group)))]
            )
    return text.table(
        ["healthy jobs", "job-days", "false", "a job-day", "interval"], rows, "", left_columns=1
    )


def _in_words(rates: Sequence[float]) -> list[str]:
    if math.isnan(rates[0]):
        return ["", ""]
    return [f"{rates[0]:.3g}", f"{rates[1]:.3g} to {rates[2]:.3g}"]
