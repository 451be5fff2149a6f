"""The SLIs of a job over its run so far, as one JSON object."""

from __future__ import annotations

from collections import Counter
from typing import Any

from stepwatch.collector.runtime.evaluation import Verdicts
from stepwatch.collector.slo.closing import attempt_steps
from stepwatch.collector.slo.run_registry import discover_run_slis, readings
from stepwatch.collector.slo.run_sli import JobFacts
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.web.job_view import job_state


def job_slis(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
    """Each SLI with its value, or null and the reason why it is not known."""
    facts, known = job_facts(job, verdicts, now), discover_run_slis()
    return {
        "job": job.name,
        "state": facts.state,
        "slos": [],
        "open_incidents": len(verdicts.open_incidents()),
        "slis": [
            {
                "name": name,
                "mission": known[name].mission,
                "unit": known[name].unit,
                **found._asdict(),
                "expected": known[name].expected,
            }
            for name, found in readings(facts).items()
        ],
    }


def job_facts(job: LiveJob, verdicts: Verdicts, now: float) -> JobFacts:
    """What SLIs read of a job that is evaluated."""
    return JobFacts(
        job=job,
        attempts=attempt_steps(job),
        state=job_state(job.current, verdicts, now),
        device_seconds=verdicts.accounts.seconds(),
        ratios={name: each.line.sums for name, each in verdicts.slices.items()},
        incidents=Counter(each.kind for each in verdicts.incidents.values()),
        one_node_speed=verdicts.one_node_speed,
        now_s=now,
    )
