"""Found shares of slow steps, by effect and frequency, and the best possible shares. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from stepwatch.cli import text

from .shares import Document, found_share, in_words

EFFECTS = (1.05, 1.2, 1.5, 2.0, 3.0, 10.01)
COSTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.01)
_NO_FACTOR = ("checkpoint-stall", "stopped-now-and-then")
_WIDE = 30
PERIODS = ((1, 1), (2, 5), (6, 20), (21, 50))
PERIOD_NAMES = tuple(f"1 step in {a}" if a == b else f"1 in {a}-{b}" for a, b in PERIODS)


class Cell(NamedTuple):
    """Faults in one range of effects and one of periods.

    `ours` is [found, total, low, high]; `limit` the mean share of the best test, None if unknown.
    """

    ours: list[float]
    limit: float | None


def cells(documents: Sequence[Document]) -> dict[tuple[int, int], Cell]:
    """Return cells by the indices of their effect range and their period range."""
    slow = [answer for answer in _slow(documents) if answer["fault"] not in _NO_FACTOR]
    grid = {}
    for row, (low, high) in enumerate(pairwise(EFFECTS)):
        for column, (first, last) in enumerate(PERIODS):
            answers = [
                answer
                for answer in slow
                if low <= answer["effect"] < high and first <= answer["period"] <= last
            ]
            grid[row, column] = Cell(found_share(answers), _limit(answers))
    return grid


def _limit(answers: Sequence[Document]) -> float | None:
    probabilities = [answer["limit"] for answer in answers if answer.get("limit") is not None]
    return sum(probabilities) / len(probabilities) if probabilities else None


def _slow(documents: Sequence[Document]) -> list[Document]:
    """Return the answers about slowing faults, whether or not they had to be found."""
    return [
        answer
        for document in documents
        for answer in document["answers"]
        if answer["fault"].startswith(("slow-", "stopped-")) and not answer["stops"]
    ]


def curve(documents: Sequence[Document]) -> str:
    """Return a text picture of the share of slowing faults that were found, by their cost."""
    rows = []
    for low, high in pairwise(COSTS):
        answers = [answer for answer in _slow(documents) if low <= answer["cost"] < high]
        hits, total, least, most = found_share(answers)
        bar = "#" * round(_WIDE * hits / total) if total else ""
        interval = f"{least:.2f} to {most:.2f}" if total else ""
        rows.append(
            [
                f"{low:.0%} to {min(high, 1.0):.0%}",
                bar.ljust(_WIDE, "."),
                interval,
                in_words([hits, total]),
                _ratio(_limit(answers)),
            ]
        )
    headings = ["found, by cost", "share", "interval", "n", "best test"]
    return text.table(headings, rows, "", left_columns=3)


def power(documents: Sequence[Document]) -> str:
    """Return the found share of faults that multiply some steps, by effect and period."""
    return _by_cell("found, by effect", documents, lambda cell: in_words(cell.ours))


def limits(documents: Sequence[Document]) -> str:
    """Return the same of the best test, which knows rank, steps and effect."""
    return _by_cell("the best test finds", documents, lambda cell: _ratio(cell.limit))


def _by_cell(title: str, documents: Sequence[Document], cell_text: Callable[[Cell], str]) -> str:
    grid = cells(documents)
    rows = [
        [
            f"{low:g} to {high:.3g}",
            *(cell_text(grid[row, column]) for column in range(len(PERIODS))),
        ]
        for row, (low, high) in enumerate(pairwise(EFFECTS))
    ]
    return text.table([title, *PERIOD_NAMES], rows, "", left_columns=1)


def _ratio(share: float | None) -> str:
    return "" if share is None else f"{share:.2f}"
