"""Stacked bars with device-time by cause and day, as SVG without a script. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from stepwatch.cli.report.html import html

WIDTH, HEIGHT = 960, 260
_LEFT, _RIGHT, _BOTTOM = 72, 20, 22
"""Margins for the axis labels, and for half the last date's width."""
COLOURS: Mapping[str, str] = json.loads(
    (resources.files("stepwatch.collector") / "colours.json").read_text()
)["causes"]
"""A colour for each cause, also distinct to readers who do not see red and green alike.

The legend names each cause, so colour is never the only difference.
"""
_MOST_LABELS = 12


def days_chart(days: Sequence[Mapping[str, Any]], causes: Sequence[str]) -> str:
    """Return one bar per day, as high as the allocated device-hours, split by cause."""
    most = max((day["allocated_seconds"] for day in days), default=0.0)
    if not most > 0:
        return ""
    wide = (WIDTH - _LEFT - _RIGHT) / len(days)
    shown = _labelled(len(days))
    parts = [_axis(most)]
    for index, day in enumerate(days):
        x, y = _LEFT + index * wide, float(HEIGHT - _BOTTOM)
        name = datetime.fromtimestamp(day["day"], UTC).strftime("%Y-%m-%d")
        for cause in causes:
            seconds = day["seconds"].get(cause, 0.0)
            if not seconds > 0:
                continue
            high = seconds / most * (HEIGHT - _BOTTOM - 10)
            y -= high
            words = f"{name}: {cause} {_hours(seconds)} device-h"
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{max(wide - 2, 1):.1f}" '
                f'height="{high:.1f}" fill="{COLOURS[cause]}"><title>{html(words)}</title></rect>'
            )
        if index in shown:
            parts.append(
                f'<text x="{x + wide / 2:.1f}" y="{HEIGHT - 6}" '
                f'text-anchor="middle">{name[5:]}</text>'
            )
    label = "Device-hours by day and cause"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def legend(causes: Sequence[str]) -> str:
    """Return the legend: colours and names."""
    return "".join(
        f'<span class="key"><span class="swatch" style="background:{COLOURS[cause]}"></span>'
        f"{html(cause)}</span>"
        for cause in causes
    )


def _labelled(count: int) -> set[int]:
    """Return the days that get a date label, spaced so that labels do not touch."""
    every = -(-count // _MOST_LABELS)
    return set(range(count - 1, -1, -every))


def _axis(most_seconds: float) -> str:
    top, base = 10, HEIGHT - _BOTTOM
    return (
        f'<line x1="{_LEFT}" y1="{base}" x2="{WIDTH - _RIGHT}" y2="{base}" class="axis"/>'
        f'<text x="{_LEFT - 6}" y="{top + 8}" text-anchor="end">{_hours(most_seconds)} h</text>'
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>'
    )


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"
