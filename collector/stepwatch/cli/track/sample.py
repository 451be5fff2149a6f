"""Values and notes for a tracker, from the collector's answers about a job. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stepwatch.collector.job_states import STALE

PREFIX = "stepwatch/"
MOST_NOTES = 200
"""Maximum number of incidents with a note, the newest ones."""
_PACE = ("tokens_per_second", "recent_step_seconds", "open_incidents")


class Sample(NamedTuple):
    """A job's values by name at the newest complete `step`, read at `wall_s` (Unix seconds)."""

    step: int
    wall_s: float
    values: dict[str, float]


class Note(NamedTuple):
    """An incident in words, dated to the `step` since when it lasts.

    The first line changes only with the incident's state, cause and place.
    """

    incident: str
    step: int
    wall_s: float
    text: str

    @property
    def headline(self) -> str:
        """The first line, by which a written note is recognised."""
        return self.text.partition("\n")[0]


def sample_of(job: Mapping[str, Any], slis: Mapping[str, Any]) -> Sample | None:
    """Return the known values from a job's document and its SLIs.

    None before the first step, and while the collector's answer is stale: that is unknown.
    """
    if job["state"] == STALE or job["step"] is None:
        return None
    values = dict(_values(job, slis))
    return Sample(int(job["step"]), float(job["as_of"]), values) if values else None


def _values(job: Mapping[str, Any], slis: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    readings = {name: job[name] for name in _PACE}
    readings |= {f"sli/{sli['name']}": sli["value"] for sli in slis["slis"]}
    readings |= {f"slo/{slo['name']}/budget": slo["budget_remaining"] for slo in job["slos"]}
    for name, value in readings.items():
        if value is not None and math.isfinite(value):
            yield PREFIX + name, float(value)


def notes_of(job: Mapping[str, Any]) -> list[Note]:
    """Return a note on each incident, oldest first."""
    return [_note(incident) for incident in job["incidents"][-MOST_NOTES:]]


def _note(incident: Mapping[str, Any]) -> Note:
    rank, step = incident["rank"], max(int(incident["since_step"]), 0)
    place = [f"rank {rank}"] if rank >= 0 else []
    facts = [incident["kind"], *place, incident["node"], incident["phase"], incident["cause"]]
    ended = incident["resolved_at"]
    lines = [
        f"{incident['state']}: {', '.join(fact for fact in facts if fact)}",
        "",
        f"- {incident['summary']}",
        f"- since step {step}, opened {_time(incident['opened_at'])}",
        *([] if ended is None else [f"- ended {_time(ended)}"]),
        f"- `stepwatch runbook {incident['runbook']} --incident {incident['id']}`",
    ]
    changed = incident["opened_at"] if ended is None else ended
    return Note(incident["id"], step, float(changed), "\n".join(lines))


def _time(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
