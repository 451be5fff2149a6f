"""The answer about a window of the matrix."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from stepwatch.collector.web.history.numbers import moments, rows, values, wholes
from stepwatch.collector.web.history.points import ROUNDED_SECONDS
from stepwatch.signals.arrays import Integers

from .cells import cells, step_edges
from .planes import Planes
from .rows import ordered, row, row_edges
from .window import Window


def matrix_document(planes: Planes, asked: Window) -> dict[str, Any]:
    """Return the cells of a window, with null for a cell without a value.

    A row is a bin of neighbouring ranks, or a bin of nodes or stages in their order. A column is a
    bin of neighbouring steps.
    """
    in_window = _steps_in(planes, asked)
    begins, steps, at = planes.begins[in_window], planes.steps[in_window], planes.at[in_window]
    places = ordered(planes, asked)
    in_rows, in_columns = row_edges(planes, places, asked), step_edges(begins, steps, asked.columns)
    seconds, slowest = cells(planes, in_window, places, in_rows, in_columns)
    ends = in_columns[1:] - 1
    known = [int(planes.begins[0]), int(planes.steps[-1])] if len(planes.steps) else None
    return {
        **planes.about,
        "clock": planes.clock,
        "by": asked.by,
        "rows": [
            row(planes, places[low:high], asked.by)
            for low, high in itertools.pairwise(in_rows.tolist())
        ],
        "steps": rows(np.stack([begins[in_columns[:-1]], steps[ends]], axis=1), wholes),
        "at": moments(at[ends]),
        "seconds": rows(seconds, values),
        "slowest": rows(slowest, _ranks),
        "known_steps": known,
    }


def _steps_in(planes: Planes, asked: Window) -> slice:
    """Return the planes' rows in a window; a row without a known end is in every range."""
    inside = (planes.steps >= asked.from_step) & (planes.begins <= asked.to_step)
    inside &= ~(planes.at < asked.from_s - ROUNDED_SECONDS)
    inside &= ~(planes.at > asked.to_s + ROUNDED_SECONDS)
    places = np.flatnonzero(inside)
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)


def _ranks(line: Integers) -> Any:
    return wholes(line) if (line >= 0).all() else values(np.where(line < 0, np.nan, line))
