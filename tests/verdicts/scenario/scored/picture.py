"""A picture of found shares and the best possible ones, by effect and period. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from .power import EFFECTS, PERIOD_NAMES, Cell, cells
from .shares import Document

_WIDE, _HIGH = 220, 180
_LEFT, _TOP, _GAP, _BELOW = 46, 44, 26, 64
_LABEL = 24
"""Least pixels between two labels of effects below a panel: 1.2 would overlap 1.05."""
_OURS, _LIMIT, _GRID = "#1f6fb2", "#c2571a", "#d5d5d5"
_TITLE = "Share of slow steps that is found, by how many times as long a step takes"


def picture(documents: Sequence[Document]) -> str:
    """Return an SVG document: a panel for each range of periods, its points with 95 % intervals."""
    grid = cells(documents)
    wide = _LEFT + len(PERIOD_NAMES) * (_WIDE + _GAP)
    high = _TOP + _HIGH + _BELOW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        _text(_LEFT, 16, _TITLE, size=13),
        *_legend(_LEFT, high - 12),
    ]
    for index, name in enumerate(PERIOD_NAMES):
        panel_cells = {row: cell for (row, column), cell in grid.items() if column == index}
        lines += _panel(_LEFT + index * (_WIDE + _GAP), name, panel_cells, numbered=index == 0)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(
    x_left: float, name: str, panel_cells: Mapping[int, Cell], *, numbered: bool
) -> Iterator[str]:
    yield _text(x_left, _TOP - 8, name)
    for share in (0.0, 0.5, 1.0):
        yield _line(x_left, _y(share), x_left + _WIDE, _y(share), _GRID)
        if numbered:
            yield _text(x_left - 6, _y(share) + 4, f"{share:.0%}", anchor="end")
    written = -math.inf
    for effect in EFFECTS:
        if (x := _x(x_left, effect)) >= written + _LABEL:
            yield _text(x, _TOP + _HIGH + 14, f"{effect:.3g}", anchor="middle")
            written = x
    middles = [_x(x_left, math.sqrt(low * high)) for low, high in pairwise(EFFECTS)]
    way = [
        (middles[row], _y(cell.limit))
        for row, cell in panel_cells.items()
        if cell.limit is not None
    ]
    if way:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in way)
        yield f'<polyline points="{points}" fill="none" stroke="{_LIMIT}" stroke-dasharray="4 3"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{_LIMIT}"/>' for x, y in way)
    for row, cell in panel_cells.items():
        hits, total, low, high = cell.ours
        if total:
            yield _line(middles[row], _y(low), middles[row], _y(high), _OURS)
            yield (
                f'<circle cx="{middles[row]:.1f}" cy="{_y(hits / total):.1f}" r="4" fill="{_OURS}">'
                f"<title>{hits:.0f} of {total:.0f}</title></circle>"
            )


def _legend(x_left: float, y: float) -> Iterator[str]:
    entries = (
        (_OURS, "stepwatch, with an interval of 95 %"),
        (_LIMIT, "the best any test can do that knows rank, steps and effect"),
    )
    for index, (colour, words) in enumerate(entries):
        x = x_left + 260 * index
        yield f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{colour}"/>'
        yield _text(x + 10, y, words)


def _x(x_left: float, effect: float) -> float:
    return x_left + _WIDE * math.log(effect / EFFECTS[0]) / math.log(EFFECTS[-1] / EFFECTS[0])


def _y(share: float) -> float:
    return _TOP + _HIGH * (1.0 - share)


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {ends} stroke="{colour}"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}>{escape(words)}</text>"
