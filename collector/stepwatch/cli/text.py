"""Numbers, tables and prose for a terminal or a pipe; unknown is a word, never a zero.

The output on a terminal and in a pipe differs only in width and in the colour of state words,
which a terminal shows unless NO_COLOR is set (https://no-color.org).
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

from stepwatch.cli.terminal import painted
from stepwatch.collector.quantities import (
    UNKNOWN,
    device_time,
    gain,
    percent,
    quantity,
    seconds,
)
from stepwatch.signals.plain_text import plain_line

__all__ = [
    "UNKNOWN",
    "clock",
    "columns",
    "command",
    "count",
    "device_time",
    "gain",
    "number",
    "painted",
    "percent",
    "quantity",
    "seconds",
    "share",
    "table",
    "wrapped",
]

NARROW, WIDE = 80, 140
"""Columns of the narrowest terminal, and the widest that prose uses, since longer lines are hard
to read.
"""


def columns() -> int:
    """Return the columns for prose: the terminal's, from `NARROW` to `WIDE`; `NARROW` in a pipe."""
    return min(max(shutil.get_terminal_size((NARROW, 24)).columns, NARROW), WIDE)


def share(value: float | None) -> str:
    """Format a ratio in percent with significant decimals: a target of 99.95% is not 100%."""
    return UNKNOWN if value is None else f"{100 * value:.4g}%"


def number(value: float | None, digits: int = 3) -> str:
    """Format a plain number with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """Format a whole number as digits."""
    return UNKNOWN if value is None else str(value)


def counted(value: int, noun: str) -> str:
    """Format a count with its noun: `1 job`, `2 jobs`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def clock(moment_s: float) -> str:
    """Format a moment (Unix seconds) in UTC."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def money(value: float, currency: str) -> str:
    """Format money to the hundredth; below one, to the ten-thousandth."""
    return f"{value:,.{2 if value >= 1 or not value else 4}f} {currency}"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ", left_columns: int = 1
) -> str:
    """Align columns at their widest cell: the first `left_columns` left, the others right.

    A cell is one line and is never cut, so that a name can be copied.
    """
    lines = [[plain_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(_cells, column)) for column in zip(*lines, strict=True)]
    shown = []
    for index, line in enumerate(lines):
        cells = []
        for place, (cell, width) in enumerate(zip(line, widths, strict=True)):
            gap = " " * (width - _cells(cell))
            word = painted(cell) if index else cell
            cells.append(word + gap if place < left_columns else gap + word)
        shown.append(f"{indent}{'  '.join(cells)}".rstrip())
    return "\n".join(shown)


def _cells(words: str) -> int:
    """Return the columns that one line takes on a terminal."""
    if words.isascii():
        return len(words)
    from rich.cells import cell_len  # its tables take 40 ms to import

    return cell_len(words)


def entry(name: str, value: str, column: int, width: int = NARROW - 2) -> str:
    """Return a name with its value beside it from `column`, in as many lines as needed."""
    indent = " " * (2 + column)
    return f"  {name:<{column}}{wrapped(value, indent, width).lstrip()}"


def command(words: str, indent: str, width: int) -> str:
    """Return a command line that can be copied.

    On a terminal with `width` columns it continues after a backslash, each option with its value.
    """
    lines = [indent]
    parts = re.split(r" (?=--)", words) if sys.stdout.isatty() else [words]
    for part in parts:
        gap = " " if lines[-1].strip() else ""
        if gap and len(lines[-1]) + 1 + len(part) > width - 2:
            lines[-1] += " \\"
            lines.append(f"{indent}    ")
            gap = ""
        lines[-1] += gap + part
    return "\n".join(lines)


def wrapped(text: str, indent: str, width: int = NARROW - 2, hang: int = 0) -> str:
    """Return text wrapped at spaces to `width`, indented; later lines have `hang` more columns."""
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
