"""Events, one line each: jobs begin and end, incidents open and close."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from stepwatch.collector.job_states import ENDED, GOING_ON, UNKNOWN


class Feed:
    """Turns the collector's lists into lines about changes.

    Entries in the first poll are history: only open incidents among them get a line.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[int | None, str]] | None = None
        self._incidents: dict[str, str] | None = None

    def news(self, jobs: list[dict[str, Any]], incidents: list[dict[str, Any]]) -> list[str]:
        """Return lines about changes, in list order, jobs first."""
        return [*self._job_news(jobs), *self._incident_news(incidents)]

    def _job_news(self, jobs: list[dict[str, Any]]) -> Iterator[str]:
        previous = self._jobs
        self._jobs = {job["job"]: (job["attempt"], job["state"]) for job in jobs}
        for job in jobs:
            last_status = (previous or {}).get(job["job"])
            if previous is not None and last_status != self._jobs[job["job"]]:
                yield from _job_line(job, last_status)

    def _incident_news(self, incidents: list[dict[str, Any]]) -> Iterator[str]:
        previous = self._incidents
        self._incidents = {item["id"]: item["state"] for item in incidents}
        # Newest first in the list, oldest first on the screen.
        for item in reversed(incidents):
            last_state = "" if previous is None else previous.get(item["id"], "")
            first_look = previous is None and item["state"] != "open"
            if not first_look and last_state != item["state"]:
                yield _incident_line(item)


def _job_line(job: dict[str, Any], last_status: tuple[int | None, str] | None) -> Iterator[str]:
    name = job["job"]
    began = last_status is None or last_status[0] != job["attempt"]
    if job["state"] in ENDED:
        position = "" if job["step"] is None else f" at step {job['step']}"
        yield f"job {name}: {job['state']}{position}"
    elif job["state"] not in (*GOING_ON, UNKNOWN):
        reason = f": {job['reason']}" if job.get("reason") else ""
        yield f"job {name}: {job['state']}{reason}"
    elif job["state"] in GOING_ON:
        attempt = f", attempt {job['attempt']}" if job["attempt"] else ""
        ranks = job["world_size"]
        where = (
            f" on {ranks} rank{'' if ranks == 1 else 's'}" if began or _is_back(last_status) else ""
        )
        yield f"job {name}{attempt}: {job['state']}{where}"


def _is_back(last_status: tuple[int | None, str] | None) -> bool:
    """Return whether the job had stopped running at the previous poll."""
    return last_status is not None and last_status[1] not in GOING_ON


def _incident_line(item: dict[str, Any]) -> str:
    state = item["state"].upper()
    return f"{state} {item['kind']} {item['id']} job {item['job']}: {item['summary']}"


def stamped(lines: Iterable[str], now: float, width: int | None) -> list[str]:
    """Return each line after the local time of `now` (Unix seconds), cut to `width` if given."""
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    full = (f"{clock} {' '.join(line.split())}" for line in lines)
    return [line if width is None or len(line) <= width else f"{line[: width - 3]}..."
            for line in full]  # fmt: skip
