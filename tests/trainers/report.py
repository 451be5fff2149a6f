"""The table for people and the document for programs."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from stepwatch.cli import text
from tests.trainers.comparison import RIGHT, WRONG, Mark
from tests.trainers.programs.plan import SLOW_LOADER, SLOW_RANK
from tests.trainers.records.columns import COLUMNS as RECORD_COLUMNS
from tests.trainers.run import CellResult

COLUMNS = (
    "steps", "phases", "collectives", "losses", "tokens", "checkpoints", "evaluation", "quiet",
    SLOW_RANK, SLOW_LOADER, "bitwise",
)  # fmt: skip
_HEADINGS = {"collectives": "coll.", "checkpoints": "ckpt", "evaluation": "eval"}
_WHO = ("trainer", "launcher", "watched by")
_PACKAGES = ("torch", "transformers", "lightning", "accelerate", "stepwatch")


def table(results: Sequence[CellResult]) -> str:
    """Return one row for each cell, in a table for each part that ran, then the remarks."""
    tables = []
    if any(result.marks.keys() & set(COLUMNS) for result in results):
        headings = [*_WHO, *(_HEADINGS.get(name, name) for name in COLUMNS), "overhead", "healthy"]
        rows = [[*_marks(result, COLUMNS), *_measured(result)] for result in results]
        tables.append(text.table(headings, rows, "", left_columns=3))
    if any(result.marks.keys() & set(RECORD_COLUMNS) for result in results):
        rows = [_marks(result, RECORD_COLUMNS) for result in results]
        tables.append(text.table([*_WHO, *RECORD_COLUMNS], rows, "", left_columns=3))
    return "\n".join([*tables, *(line for result in results for line in remarks(result))])


def remarks(result: CellResult) -> list[str]:
    """Return a cell's deviations, one line each."""
    if result.problem:
        return [f"{result.cell.name}: BROKEN: {result.problem}"]
    return [
        f"{result.cell.name} {name}: {mark.word}: {mark.why}"
        for name, mark in result.marks.items()
        if mark.word != RIGHT
    ]


def line(result: CellResult) -> str:
    """Return one cell's result in one line."""
    if result.problem:
        return f"BROKEN ({result.problem})"
    wrong = [name for name, mark in result.marks.items() if mark.word == WRONG]
    word = f"wrong: {', '.join(wrong)}" if wrong else "right"
    return f"{word}  overhead {_format(result.overhead, '.2f')}"


def document(results: Sequence[CellResult], jobs: int) -> dict[str, Any]:
    """Return all results with the versions, and the number of cells at a time; unknown values are
    null."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "cells_at_a_time": jobs,
        "cells": [_cell(result) for result in results],
    }


def _marks(result: CellResult, names: Sequence[str]) -> list[str]:
    cell, blank = result.cell, Mark("-")
    marks = [result.marks.get(name, blank).word for name in names]
    return [cell.trainer.name, cell.trainer.launcher, cell.way, *marks]


def _measured(result: CellResult) -> list[str]:
    return [_format(result.overhead, ".2f"), _format(result.healthy_seconds, ".0f", " s")]


def _cell(result: CellResult) -> dict[str, Any]:
    return {
        "trainer": result.cell.trainer.name,
        "launcher": result.cell.trainer.launcher,
        "watched_by": result.cell.way,
        "marks": {name: mark._asdict() for name, mark in result.marks.items()},
        "overhead": _round(result.overhead, 4),
        "healthy_seconds": _round(result.healthy_seconds, 1),
        "problem": result.problem,
    }


def _format(value: float, form: str, unit: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{form}}{unit}"


def _round(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else round(value, digits)
