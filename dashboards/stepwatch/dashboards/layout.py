"""Panel layout: rows, each from the left edge of the 24-column grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .panels import Panel
from .sdk import builders, dashboard

COLUMNS = 24


@dataclass(frozen=True)
class Section:
    """A titled row and its panels, in reading order."""

    title: str
    panels: Sequence[Panel]


def place(page: builders.Dashboard, sections: Sequence[Section]) -> builders.Dashboard:
    """Add the sections below each other, panels side by side while they fit."""
    top = 0
    for section in sections:
        row = builders.Row(section.title)
        page = page.with_row(row.grid_pos(dashboard.GridPos(x=0, y=top, w=COLUMNS, h=1)))
        top += 1
        column = tallest = 0
        for panel in section.panels:
            size = _size(panel)
            if column + size.w > COLUMNS:
                top, column, tallest = top + tallest, 0, 0
            page = page.with_panel(
                panel.grid_pos(dashboard.GridPos(x=column, y=top, w=size.w, h=size.h))
            )
            column, tallest = column + size.w, max(tallest, size.h)
        top += tallest
    return page


def _size(panel: Panel) -> dashboard.GridPos:
    built = panel.build()
    return built.grid_pos if built.grid_pos is not None else dashboard.GridPos()
