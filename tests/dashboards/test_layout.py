"""Placing panels on the grid."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.dashboards.layout import COLUMNS, Section, place
from stepwatch.dashboards.panels import Line, Metadata, number
from stepwatch.dashboards.sdk import builders


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, COLUMNS), min_size=1, max_size=8), max_size=4))
def test_panels_never_overlap(sections: list[list[int]]) -> None:
    described = [
        Section("row", [number(Metadata("t", "d.", width=width), Line("up")) for width in widths])
        for widths in sections
    ]
    built = place(builders.Dashboard("any"), described).build()
    occupied: set[tuple[int, int]] = set()
    for panel in built.panels or []:
        box = panel.grid_pos
        assert box is not None
        cells = {(x, y) for x in range(box.x, box.x + box.w) for y in range(box.y, box.y + box.h)}
        assert max(x for x, _ in cells) < COLUMNS
        assert not cells & occupied
        occupied |= cells
