"""What of all that slows steps was found, by how much and how often, and what can be. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from stepwatch.cli import text

from .shares import Document, found_of, in_words

EFFECTS = (1.05, 1.2, 1.5, 2.0, 3.0, 10.01)
COSTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 1.01)
_NO_FACTOR = ("slow-saver", "stopped-now-and-then")
_WIDE = 30
PERIODS = ((1, 1), (2, 5), (6, 20), (21, 50))
PERIOD_NAMES = tuple(f"1 step in {a}" if a == b else f"1 in {a}-{b}" for a, b in PERIODS)


class Cell(NamedTuple):
    """Faults of one range of effects and of periods: [found, of, low, high] of ours, and the mean
    of what the best test finds, None where that is not known."""

    ours: list[float]
    limit: float | None


def cells(done: Sequence[Document]) -> dict[tuple[int, int], Cell]:
    """By the numbers of the range of effects and of the range of periods."""
    slow = [each for each in _slow(done) if each["fault"] not in _NO_FACTOR]
    found = {}
    for row, (low, high) in enumerate(pairwise(EFFECTS)):
        for column, (first, last) in enumerate(PERIODS):
            mine = [
                each
                for each in slow
                if low <= each["effect"] < high and first <= each["period"] <= last
            ]
            found[row, column] = Cell(found_of(mine), _limit(mine))
    return found


def _limit(answers: Sequence[Document]) -> float | None:
    known = [each["limit"] for each in answers if each.get("limit") is not None]
    return sum(known) / len(known) if known else None


def _slow(done: Sequence[Document]) -> list[Document]:
    """Verdicts on what slows steps, whether or not it had to be found."""
    return [
        each
        for one in done
        for each in one["answers"]
        if each["fault"].startswith(("slow-", "stopped-")) and not each["stops"]
    ]


def curve(done: Sequence[Document]) -> str:
    """A picture of the share found of what slows steps, against what it costs."""
    rows = []
    for low, high in pairwise(COSTS):
        mine = [each for each in _slow(done) if low <= each["cost"] < high]
        hits, of, least, most = found_of(mine)
        bar = "#" * round(_WIDE * hits / of) if of else ""
        interval = f"{least:.2f} to {most:.2f}" if of else ""
        rows.append(
            [
                f"{low:.0%} to {min(high, 1.0):.0%}",
                bar.ljust(_WIDE, "."),
                interval,
                in_words([hits, of]),
                _ratio(_limit(mine)),
            ]
        )
    headings = ["found, by cost", "share", "interval", "n", "best test"]
    return text.table(headings, rows, "", left_columns=3)


def power(done: Sequence[Document]) -> str:
    """Share found of what takes a factor longer in some steps, by effect and period."""
    return _by_cell("found, by effect", done, lambda cell: in_words(cell.ours))


def limits(done: Sequence[Document]) -> str:
    """The same of the best test: one that knows rank, steps and effect."""
    return _by_cell("the best test finds", done, lambda cell: _ratio(cell.limit))


def _by_cell(title: str, done: Sequence[Document], said: Callable[[Cell], str]) -> str:
    known = cells(done)
    rows = [
        [f"{low:g} to {high:.3g}", *(said(known[row, at]) for at in range(len(PERIODS)))]
        for row, (low, high) in enumerate(pairwise(EFFECTS))
    ]
    return text.table([title, *PERIOD_NAMES], rows, "", left_columns=1)


def _ratio(share: float | None) -> str:
    return "" if share is None else f"{share:.2f}"
