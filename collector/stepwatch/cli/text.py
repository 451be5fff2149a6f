"""Numbers and tables as people read them in a terminal; unknown is a word, never a zero."""

from __future__ import annotations

from collections.abc import Sequence

from stepwatch.collector.quantities import UNKNOWN, percent, quantity, seconds

__all__ = [
    "UNKNOWN",
    "number",
    "percent",
    "quantity",
    "seconds",
    "share",
    "table",
    "wrapped",
]

NARROW, WIDE = 80, 140
"""Columns that text is made for: of the narrowest terminal, and beyond which lines read badly."""


def share(value: float | None) -> str:
    """A ratio in percent with what decimals it takes: a target of 99.95% is not 100%."""
    return UNKNOWN if value is None else f"{100 * value:.4g}%"


def number(value: float | None, digits: int = 3) -> str:
    """A plain number with thousands separated."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ", left: int = 1
) -> str:
    """Columns as wide as their widest cell: `left` of them to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        sides = zip(cells, widths, range(len(cells)), strict=True)
        padded = (c.ljust(width) if at < left else c.rjust(width) for c, width, at in sides)
        return f"{indent}{'  '.join(padded)}".rstrip()

    return "\n".join(line(cells) for cells in (head, *rows))


def wrapped(text: str, indent: str, width: int = NARROW - 2, hang: int = 0) -> str:
    """Text broken at spaces to `width`, indented, all but the first line by `hang` more."""
    lines, current = [], indent
    for word in text.split():
        if len(current) + len(word) + 1 > width and current.strip():
            lines.append(current.rstrip())
            current = indent + " " * hang
        current += f"{word} "
    return "\n".join([*lines, current.rstrip()])
