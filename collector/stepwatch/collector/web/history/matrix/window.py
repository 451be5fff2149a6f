"""The part of the matrix that a request asks for."""

from __future__ import annotations

from typing import NamedTuple

MOST_ROWS, MOST_COLUMNS = 512, 512
"""Cells on a 4K screen that are at least four pixels high and seven wide."""


class Window(NamedTuple):
    """A range of moments, steps and ranks, both ends included, and the most bins.

    Moments are Unix seconds, infinite where the range is open. `by` names the bins of the rows.
    """

    from_s: float
    to_s: float
    from_step: int
    to_step: int
    first: int
    last: int
    by: str
    rows: int
    columns: int
