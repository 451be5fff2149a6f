"""A job's SLIs over its run, as one JSON object."""

from __future__ import annotations

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.slo.over_run.registry import discover_run_slis, readings
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.web.schema.slo import JobSlis


def job_slis(job: LiveJob, verdicts: Verdicts, now: float) -> JobSlis:
    """Return each SLI with its value, or null and the reason."""
    facts, run_slis = job_facts(job, verdicts, now), discover_run_slis()
    return {
        "job": job.name,
        "state": facts.state,
        "slos": [],
        "open_incidents": len(verdicts.open_incidents()),
        "slis": [
            {
                "name": name,
                "mission": run_slis[name].mission,
                "unit": run_slis[name].unit,
                "value": reading.value,
                "events": reading.events,
                "low": reading.low,
                "high": reading.high,
                "detail": reading.detail,
                "unknown": reading.unknown,
                "expected": run_slis[name].expected,
            }
            for name, reading in readings(facts).items()
        ],
    }
