"""The outcomes of all drills, as a table of 80 columns and as JSON. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from stepwatch.cli import text

from .faults import TICKET
from .outcome import Row

_HEAD = f"{'drill':17}{'verdict':37}{'as':7}{'found':>5}{'sent':>5}{'over':>5}"


class Check(NamedTuple):
    """One requirement of the chain itself, and its outcome; `seconds` is NaN without a figure."""

    name: str
    shown: str
    seconds: float
    problems: tuple[str, ...]


class Healthy(NamedTuple):
    """Training without a fault: duration, restarts, evaluations as the trainer counted them, how
    many it left unmarked, and unwanted notifications. `problem` tells why it ended early."""

    seconds: float
    restarts: int
    checkpoints: int
    evaluations: int
    unmarked: int
    longest_unmarked_seconds: float
    notifications: tuple[str, ...]
    problem: str = ""


class Board(NamedTuple):
    """All outcomes of one drill command."""

    rows: Sequence[Row]
    checks: Sequence[Check] = ()
    healthy: Healthy | None = None
    seconds: float = math.nan

    @property
    def problems(self) -> list[tuple[str, ...]]:
        """The problems of each drill and check."""
        return [
            *(row.problems for row in self.rows),
            *(check.problems for check in self.checks),
        ]

    @property
    def fails(self) -> bool:
        """Whether there is any problem."""
        return any(self.problems) or bool(
            self.healthy and (self.healthy.notifications or self.healthy.problem)
        )


def table(board: Board) -> str:
    """Return the scoreboard: a row per drill, then how many passed and how long it took."""
    lines = [_HEAD, *(line for row in board.rows for line in _lines(row))] if board.rows else []
    lines += [line for check in board.checks for line in _check_lines(check)]
    return "\n".join([*lines, "", *_summary(board)])


def document(board: Board) -> dict[str, Any]:
    """Return the scoreboard for programs; an event that did not occur is null."""
    return {
        "drills": [_plain(row) for row in board.rows],
        "checks": [_plain(check) for check in board.checks],
        "healthy": board.healthy._asdict() if board.healthy else None,
        "seconds": board.seconds,
        "summary": list(_summary(board)),
    }


def _summary(board: Board) -> Iterator[str]:
    if board.problems:
        right = sum(not problems for problems in board.problems)
        yield f"{right} of {len(board.problems)} as they should be"
    for route, named in (("page", False), ("ticket", True)):
        rows = [row for row in board.rows if (row.severity == TICKET) is named]
        for word, values in (
            ("verdict", [row.found_seconds for row in rows]),
            (route, [row.sent_seconds for row in rows]),
        ):
            came = sorted(value for value in values if not math.isnan(value))
            if came:
                tenth = came[math.ceil(0.9 * len(came)) - 1]
                yield (
                    f"fault to {word} ({route}s, {len(came)}): p50 {statistics.median(came):.1f} s,"
                    f" p90 {tenth:.1f} s"
                )
    if board.healthy:
        yield (
            f"{len(board.healthy.notifications)} notifications in "
            f"{board.healthy.seconds / 60:.0f} healthy minutes with {board.healthy.restarts} "
            f"restarts, {board.healthy.checkpoints} checkpoints"
        )
        yield (
            f"and {board.healthy.evaluations} evaluations, {board.healthy.unmarked} of them "
            f"unmarked and of up to {board.healthy.longest_unmarked_seconds:.0f} s"
        )
        yield from (f"  {notification}" for notification in board.healthy.notifications)
        if board.healthy.problem:
            yield f"  it ended early: {board.healthy.problem}"
    if not math.isnan(board.seconds):
        yield f"it took {board.seconds / 60:.0f} minutes"


def _plain(row: Row | Check) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in row._asdict().items()
    }


def _lines(row: Row) -> Iterator[str]:
    name = row.name
    if len(name) > 16:
        yield name
        name = ""
    where = f" {row.rank}" if row.rank >= 0 else ""
    verdict = f"{row.kind}{'/' if row.cause else ''}{row.cause}{where}"
    times = (row.found_seconds, row.sent_seconds, row.over_seconds)
    mark = "NO" if row.problems else "ok"
    figures = "".join(_seconds(seconds) for seconds in times)
    yield f"{name:17}{verdict:37}{row.severity:7}{figures}  {mark}"
    for problem in row.problems:
        yield text.wrapped(problem, "    ")


def _check_lines(check: Check) -> Iterator[str]:
    mark = "NO" if check.problems else "ok"
    yield f"{check.name:18}{check.shown[:50]:50}{_seconds(check.seconds):>8}  {mark}"
    for problem in check.problems:
        yield text.wrapped(problem, "    ")


def _seconds(value: float) -> str:
    return f"{'-' if math.isnan(value) else f'{value:.0f}':>5}"
