"""Dashboard "Training: executive": the fleet's jobs, goodput, waste and SLOs."""

from __future__ import annotations

from stepwatch.collector.slo.states import SloState
from stepwatch.dashboards import fleet, frame, spending
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import health, job_table, slos_in
from stepwatch.dashboards.ended import ended_jobs
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import (
    NONE_KNOWN,
    Line,
    Metadata,
    Panel,
    lines,
    number,
)
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.dashboards.usage import usage
from stepwatch.signals import names
from stepwatch.signals.names import JOB_CLASS, SEVERITY, SLI, SLO

UID = "stepwatch-executive"
FILE = "executive.json"
TITLE = "Training: executive"

_GOOD = fleet.of_jobs(names.SLI_GOOD, SLI)
_ALL = fleet.of_jobs(names.SLI_TOTAL, SLI)
_CLASSES = fleet.of_jobs(names.JOB_INFO, JOB_CLASS)


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "The fleet for leads: running jobs, their useful share, missed SLOs."
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page)
    return place(page, [_jobs(), ended_jobs(), _goodput(), _slos(), usage()])


def _jobs() -> Section:
    running = Metadata("Jobs by class", "Jobs that are expected to run, by class.", "none")
    failed = Metadata("Failed jobs", "All ranks of the newest attempt failed.", "none",
                      empty=NONE_KNOWN)  # fmt: skip
    tokens = Metadata("Tokens per second", "Tokens trained on, over all chosen jobs.", width=16)
    by_class = fleet.total(fleet.while_running(_CLASSES), JOB_CLASS)
    failures = f"count({fleet.of_jobs(names.SECONDS_SINCE_FAILURE)})"
    pace = fleet.total(fleet.rate_of_jobs(names.JOB_TOKENS))
    return Section(
        "Jobs",
        [
            number(running, Line(by_class, legend(JOB_CLASS))),
            number(failed, Line(failures), ANY),
            health(),
            lines(tokens, Line(pace, "tokens/s")),
            job_table(
                Metadata("Attempts", "In the time range; more than one is a restart.", "none"),
                fleet.worst(fleet.ATTEMPTS),
                "attempts",
            ).height(8),
        ],
    )


def _goodput() -> Section:
    return Section(
        "Money and waste",
        [*spending.money(), spending.productive_share(), *_ratios(), spending.spent_hours(),
         spending.uses_over_time(), spending.by_project()],
    )  # fmt: skip


def _ratios() -> list[Panel]:
    ratio = Metadata(
        "Good share", "Good over counted device-seconds since the jobs began.", "percentunit", 6
    )
    seconds = fleet.total(_GOOD, SLI), fleet.total(_ALL, SLI)
    return [number(ratio, Line(f"{seconds[0]} / ({seconds[1]} > 0)", legend(SLI)))]


def _slos() -> Section:
    spent = Metadata("Most budget spent", "Beyond 100% the target is missed.", "percentunit")
    burn = Metadata(
        "Burning budgets", "How many times too fast.", "none", empty="none known to burn"
    )
    remaining = fleet.of_jobs(names.SLO_BUDGET_REMAINING, SLO, how="min")
    rate = fleet.of_jobs(names.SLO_BURN_RATE, SLO, SEVERITY)
    return Section(
        "SLOs",
        [
            slos_in(SloState.EXHAUSTED, "Budgets gone", "Targets missed.", 4).height(6),
            slos_in(SloState.BURNING, "Budgets burning", "Too fast.", 4).height(6),
            job_table(spent, fleet.worst(f"1 - {remaining}"), "spent", SLO),
            job_table(burn, fleet.worst(rate), "rate", SLO, SEVERITY),
        ],
    )
