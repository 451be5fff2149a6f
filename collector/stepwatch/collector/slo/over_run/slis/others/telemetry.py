"""Whether all expected step records of the job have arrived."""

from __future__ import annotations

from stepwatch.collector.slo.over_run.sli import JobFacts, Reading, RunSli, unknown


def completeness(facts: JobFacts) -> Reading:
    """Measure the received share of the expected step records."""
    window = facts.ratios.get("goodput")
    if window is None or window.coverage is None:
        return unknown("no step is known")
    return Reading(float(window.coverage))


SLIS = (
    RunSli(
        name="telemetry-completeness",
        mission="",
        what="step records that came",
        formula="records of (step, rank) received / expected",
        unit="ratio",
        weight="records",
        expected="0.999",
        trap="the newest records are always on their way",
        needs="steps",
        measure=completeness,
    ),
)
