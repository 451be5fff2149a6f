"""Numbers, tables and prose for a terminal or a pipe; unknown is a word, never a zero.

The output has no colour codes and is the same on a terminal and in a pipe, but for its width.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO

from stepwatch.collector.quantities import UNKNOWN, percent, quantity, seconds

__all__ = [
    "UNKNOWN",
    "clock",
    "columns",
    "count",
    "number",
    "percent",
    "quantity",
    "seconds",
    "share",
    "table",
    "wrapped",
]

NARROW, WIDE = 80, 140
"""Columns of the narrowest terminal, and beyond which lines of prose are hard to read."""
_UNBOUNDED = 10_000
"""Width of a console on which no cell is cut: a name stays one that can be copied."""


def columns() -> int:
    """Columns for prose: the terminal's within `NARROW` and `WIDE`; `NARROW` in a pipe."""
    return min(max(shutil.get_terminal_size((NARROW, 24)).columns, NARROW), WIDE)


def share(value: float | None) -> str:
    """A ratio in percent with the decimals it needs: a target of 99.95% is not 100%."""
    return UNKNOWN if value is None else f"{100 * value:.4g}%"


def number(value: float | None, digits: int = 3) -> str:
    """A plain number with thousands separated."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """A whole number as digits."""
    return UNKNOWN if value is None else str(value)


def clock(at: float) -> str:
    """A moment (Unix seconds) in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def money(value: float, currency: str) -> str:
    """Money to the hundredth, of less than one to the ten-thousandth."""
    return f"{value:,.{2 if value >= 1 or not value else 4}f} {currency}"


def device_time(seconds: float) -> str:
    """Device-time as people count it: device-hours, of little minutes or seconds."""
    if seconds < 60.0:
        return f"{seconds:.1f} device-s"
    return (
        f"{seconds / 60:.1f} device-min"
        if seconds < 3600.0
        else f"{seconds / 3600.0:,.2f} device-h"
    )


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ", left: int = 1
) -> str:
    """Columns as wide as their widest cell: `left` of them to the left, the others to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for at, title in enumerate(head):
        made.add_column(Text(title), justify="left" if at < left else "right", no_wrap=True)
    for row in rows:
        made.add_row(*map(Text, row))
    console = Console(file=StringIO(), width=_UNBOUNDED, color_system=None)
    with console.capture() as captured:
        console.print(made)
    lines = captured.get().splitlines()
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def entry(name: str, value: str, column: int, width: int = NARROW - 2) -> str:
    """A name, and its value from `column` on beside it, in as many lines as it takes."""
    indent = " " * (2 + column)
    return f"  {name:<{column}}{wrapped(value, indent, width).lstrip()}"


def wrapped(text: str, indent: str, width: int = NARROW - 2, hang: int = 0) -> str:
    """Text broken at spaces to `width`, indented, all but the first line by `hang` more."""
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
