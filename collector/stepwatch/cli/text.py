"""Numbers and tables as people read them in a terminal; unknown is a word, never a zero."""

from __future__ import annotations

from collections.abc import Sequence

UNKNOWN = "unknown"
NARROW, WIDE = 80, 140
"""Columns that text is made for: of the narrowest terminal, and beyond which lines read badly."""


def seconds(value: float | None) -> str:
    """A duration: `4.1 ms`, `825 ms`, `1.06 s`, `12.4 min`."""
    if value is None:
        return UNKNOWN
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.2f} s" if value < 120 else f"{value / 60:.1f} min"


def percent(value: float | None) -> str:
    """A ratio in whole percent."""
    return UNKNOWN if value is None else f"{value:.0%}"


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit: seconds and ratios as people read them, others as they are."""
    if unit == "seconds":
        return seconds(value)
    return percent(value) if unit == "ratio" else f"{number(value)} {unit}"


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


def wrapped(text: str, indent: str, width: int = NARROW - 2) -> str:
    """Text broken at spaces to `width`, every line indented."""
    lines, current = [], indent
    for word in text.split():
        if len(current) + len(word) + 1 > width and current.strip():
            lines.append(current.rstrip())
            current = indent
        current += f"{word} "
    return "\n".join([*lines, current.rstrip()])
