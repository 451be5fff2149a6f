"""A job's SLIs over its run, as one JSON object."""

from __future__ import annotations

from typing import Any

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts, job_facts
from stepwatch.collector.slo.over_run.registry import discover_run_slis, readings
from stepwatch.collector.state.job import LiveJob


def job_slis(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
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
                **reading._asdict(),
                "expected": run_slis[name].expected,
            }
            for name, reading in readings(facts).items()
        ],
    }
