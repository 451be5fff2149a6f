"""The route of a sweep."""

from __future__ import annotations

import json
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.answering.tagged import tagged
from stepwatch.collector.web.documents import encoded
from stepwatch.collector.web.fleet.jobs import JobLines
from stepwatch.collector.web.fleet.search import MOST_CHARACTERS
from stepwatch.collector.web.schema.job import JobLineAnswer
from stepwatch.collector.web.schema.sweep import Extremes, SweepAnswer, Trial

from .trials import TRIAL, differing

MOST_TRIALS = 500
"""Trials per answer, the newest: each costs a few milliseconds to read."""
MOST_METRIC = 300
"""Characters in a metric's name."""


class SweepsApi:
    """The handler; `lines` are all jobs' list entries."""

    def __init__(self, service: Service, lines: JobLines) -> None:
        self._service = service
        self._lines = lines

    def routes(self) -> list[Route]:
        """Return the routes by path."""
        return [Route("/v1/sweeps", self.sweep)]

    async def sweep(self, request: Request) -> Response:
        """Serve the trials whose names begin with `?match=`, and what each reached in `?metric=`.

        `?evaluation=` names the evaluation that the metric belongs to.
        """
        query = request.query_params
        match, metric = query.get("match", ""), query.get("metric", "loss")
        evaluation = query.get("evaluation", "")
        if not 0 < len(match) <= MOST_CHARACTERS:
            reason = f"give match, the beginning of names, of 1 to {MOST_CHARACTERS} characters"
            return JSONResponse({"error": reason}, 400)
        if max(len(metric), len(evaluation)) > MOST_METRIC:
            return JSONResponse({"error": f"a name has at most {MOST_METRIC} characters"}, 400)
        document = await run_in_threadpool(self._read, match, (metric, evaluation))
        content = encoded(document)
        return tagged(request, content, content)

    def _read(self, match: str, wanted: tuple[str, str]) -> SweepAnswer:
        lines = [line for line in self._lines.read() if line["job"].startswith(match)]
        trials = [(line, self._trial(line["job"])) for line in lines[:MOST_TRIALS]]
        settings = differing([trial["facts"] for _, trial in trials])
        metrics = {(item["name"], item["evaluation"]) for _, t in trials for item in t["metrics"]}
        return {
            "match": match,
            "metric": wanted[0],
            "evaluation": wanted[1],
            "count": len(lines),
            "settings": settings,
            "metrics": [{"name": name, "evaluation": of} for name, of in sorted(metrics)],
            "trials": [_entry(line, trial, settings, wanted) for line, trial in trials],
        }

    def _trial(self, job: str) -> dict[str, Any]:
        """Return a trial's data; without any for a job that is not evaluated."""
        published = self._service.answer(job, TRIAL)
        if published is None:
            return {"facts": {}, "metrics": [], "began_at": None, "cost": None}
        trial: dict[str, Any] = json.loads(bytes(published.value))
        return trial


def _entry(
    line: JobLineAnswer, trial: dict[str, Any], settings: list[str], wanted: tuple[str, str]
) -> Trial:
    metrics: list[Extremes] = trial["metrics"]
    value = [item for item in metrics if (item["name"], item["evaluation"]) == wanted]
    return {
        "job": line["job"],
        "state": line["state"],
        "step": line["step"],
        "began_at": trial["began_at"],
        "device_seconds": trial.get("device_seconds"),
        "cost": trial["cost"],
        "settings": {name: trial["facts"][name] for name in settings if name in trial["facts"]},
        "value": value[0] if value else None,
    }
