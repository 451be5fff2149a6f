"""All jobs of a collector in one table: their selection and format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from stepwatch.cli import text
from stepwatch.cli.slos.words import worst_state
from stepwatch.cli.terminal import unmarked
from stepwatch.collector.job_states import ENDED, STALE

UNKNOWN_FOR_SECONDS = 86_400.0
"""A job without a reported end counts as ended after a day without records."""

Job = dict[str, Any]


class Choice(NamedTuple):
    """Jobs whose name matches `pattern`, in `state` if one is named; `all` includes ended ones."""

    pattern: str | None = None
    state: str | None = None
    all: bool = False


def chosen(jobs: Iterable[Job], choice: Choice, now: float) -> tuple[list[Job], int]:
    """Return the jobs to show, and the number of hidden ended jobs; `now` in Unix seconds.

    A job with an open incident is shown even if it has ended.
    """
    named = [job for job in jobs if choice.pattern is None or _matches(job, choice.pattern)]
    matching = [job for job in named if choice.state in (None, job["state"])]
    if choice.all or choice.state is not None:
        return matching, 0
    shown = [job for job in matching if job["open_incidents"] or not _has_ended(job, now)]
    return shown, len(matching) - len(shown)


def _matches(job: Job, pattern: str) -> bool:
    return fnmatchcase(job["job"], pattern)


def _has_ended(job: Job, now: float) -> bool:
    if job["state"] in ENDED:
        return True
    silent = job["newest_record_at"]
    long_ago = silent is not None and now - silent > UNKNOWN_FOR_SECONDS
    return long_ago and job["state"] == text.UNKNOWN


def fleet_text(jobs: list[Job], width: int, now: float) -> str:
    """Return one line per job, then each job's costliest open incident, in `width` columns."""
    notes = [text.wrapped(note, "", width, hang=2) for note in _notes(jobs)]
    return "\n\n".join([_table([_row(job, now) for job in jobs], width), *notes])


_HEAD = ("job", "state", "last seen", "attempt", "ranks", "step", "incidents", "slo")
_DISPENSABLE = ("attempt", "ranks", "last seen", "step")
"""Columns that a narrow terminal hides, in the order of removal; `status JOB` has them."""


def _table(rows: list[list[str]], width: int) -> str:
    """Return the table in `width` columns; long names may use the full width."""
    shown = list(_HEAD)
    for dropped_column in (None, *_DISPENSABLE):
        shown = [name for name in shown if name != dropped_column]
        places = [_HEAD.index(name) for name in shown]
        left_columns = 3 if "last seen" in shown else 2
        table = text.table(
            shown, [[row[index] for index in places] for row in rows], "", left_columns=left_columns
        )
        if max(len(unmarked(line)) for line in table.splitlines()) <= width:
            break
    return table


def _row(job: Job, now: float) -> list[str]:
    return [
        job["job"],
        job["state"],
        last_seen(job["newest_record_at"], now),
        text.count(job["attempt"]),
        text.count(job["world_size"] or None),
        text.count(job["step"]),
        text.count(job["open_incidents"]),
        worst_state(job["slos"]),
    ]


def last_seen(received_at: float | None, now: float) -> str:
    """Return the age of the last record: `3 s ago`, `5 min ago`, `2 days ago`."""
    if received_at is None:
        return text.UNKNOWN
    age = max(now - received_at, 0.0)
    for unit, length, beyond in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if age < length * beyond:
            return f"{age // length:.0f} {unit} ago"
    return f"{age // 86_400:.0f} days ago"


def left_out_text(count: int) -> str:
    """Return the line about ended jobs that are not shown."""
    return f"{count} ended job{'' if count == 1 else 's'} not shown; --all shows them"


def withheld_text(job: Job) -> str:
    """Return the line for a job that is stored but not evaluated: start time and reason."""
    return f"{job['job']}: {job['state']} since {text.clock(job['since'])}: {job['reason']}"


def stale_text(job: Job) -> str:
    """Return the line for a stale job: age, reason, and its state at that time."""
    about = job["stale"]
    return f"{job['job']}: {about['reason']}; it was {about['state']} then"


def _notes(jobs: Iterable[Job]) -> Iterator[str]:
    for job in jobs:
        if job["reason"]:
            yield withheld_text(job)
        if job["state"] == STALE:
            yield stale_text(job)
    for job in jobs:
        if job["worst"] is not None:
            yield f"{job['job']}: {job['worst']['kind']}: {job['worst']['summary']}"


def all_nodes(ask: Callable[..., Any], **query: str) -> dict[str, Any]:
    """Return all pages of the node list as one document; `ask` takes an API path and a query."""
    fleet: dict[str, Any] = ask("/v1/nodes", **query)
    while fleet["next"] is not None:
        page = ask("/v1/nodes", **query, after=fleet["next"])
        fleet["nodes"] += page["nodes"]
        fleet["next"] = page["next"]
    return fleet
