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
from tests.trainers.run import Done

COLUMNS = (
    "steps", "phases", "collectives", "losses", "tokens", "checkpoints", "evaluation", "quiet",
    SLOW_RANK, SLOW_LOADER, "bitwise",
)  # fmt: skip
_HEADINGS = {"collectives": "coll.", "checkpoints": "ckpt", "evaluation": "eval"}
_PACKAGES = ("torch", "transformers", "lightning", "accelerate", "stepwatch")


def table(done: Sequence[Done]) -> str:
    """One row for each cell, then what is not right."""
    headings = ["trainer", "launcher", "watched by", *(_HEADINGS.get(n, n) for n in COLUMNS)]
    rows = [_row(each) for each in done]
    shown = text.table([*headings, "overhead", "healthy"], rows, "", left_columns=3)
    return "\n".join([shown, *(line for each in done for line in remarks(each))])


def remarks(done: Done) -> list[str]:
    """What is not right in a cell, one line each."""
    if done.problem:
        return [f"{done.cell.name}: BROKEN: {done.problem}"]
    return [
        f"{done.cell.name} {name}: {mark.word}: {mark.why}"
        for name, mark in done.marks.items()
        if mark.word != RIGHT
    ]


def line(done: Done) -> str:
    """What came of one cell."""
    if done.problem:
        return f"BROKEN ({done.problem})"
    wrong = [name for name, mark in done.marks.items() if mark.word == WRONG]
    word = f"wrong: {', '.join(wrong)}" if wrong else "right"
    return f"{word}  overhead {_shown(done.overhead, '.2f')}"


def document(done: Sequence[Done], jobs: int) -> dict[str, Any]:
    """All of it with the versions, and how many cells ran at a time; what is not known is null."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
        "cells_at_a_time": jobs,
        "cells": [_cell(each) for each in done],
    }


def _row(done: Done) -> list[str]:
    cell, blank = done.cell, Mark("-")
    marks = [done.marks.get(name, blank).word for name in COLUMNS]
    ratio, seconds = _shown(done.overhead, ".2f"), _shown(done.healthy_seconds, ".0f", " s")
    return [cell.trainer.name, cell.trainer.launcher, cell.way, *marks, ratio, seconds]


def _cell(done: Done) -> dict[str, Any]:
    return {
        "trainer": done.cell.trainer.name,
        "launcher": done.cell.trainer.launcher,
        "watched_by": done.cell.way,
        "marks": {name: mark._asdict() for name, mark in done.marks.items()},
        "overhead": _known(done.overhead, 4),
        "healthy_seconds": _known(done.healthy_seconds, 1),
        "problem": done.problem,
    }


def _shown(value: float, form: str, unit: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{form}}{unit}"


def _known(value: float, digits: int) -> float | None:
    return None if math.isnan(value) else round(value, digits)
