"""Dashboard "Training: SLOs": missed targets, burn rates and unknown states."""

from __future__ import annotations

from stepwatch.collector.slo.states import SloState
from stepwatch.dashboards import fleet, frame
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import JOB_LINK, job_table, slos_in
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import (
    Line,
    Metadata,
    Panel,
    coloured,
    lines,
    linked,
    number,
    rows,
)
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import (
    STATE_COLORS,
    above,
    legend,
    runbook,
)
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import JOB, JOB_CLASS, SEVERITY, SLI, SLO, STATE

UID = "stepwatch-slo"
FILE = "slo.json"
TITLE = "Training: SLOs"

_STATE = fleet.of_jobs(names.SLO_STATE, SLO, STATE)
_SPENT = f"1 - {fleet.of_jobs(names.SLO_BUDGET_REMAINING, SLO, how='min')}"
_GOOD = fleet.of_jobs(names.SLI_GOOD, SLI)
_ALL = fleet.of_jobs(names.SLI_TOTAL, SLI)
_COVERAGE = fleet.of_jobs(names.TELEMETRY_COVERAGE, how="min")


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = "SLOs of the chosen jobs: which are missed, how fast their budgets go, and why."
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page)
    for alert in (names.ALERT_BUDGET_BURNING_FAST, names.ALERT_BUDGET_BURNING):
        page = page.link(runbook(thresholds, alert))
    return place(page, [_missed(thresholds), _budgets(), _behind(thresholds)])


def _missed(thresholds: Thresholds) -> Section:
    least = Metadata(
        "Lowest coverage", "Below the threshold SLOs are frozen: telemetry is missing.",
        "percentunit", 6,
    )  # fmt: skip
    return Section(
        "What is missed",
        [
            slos_in(SloState.EXHAUSTED, "Budgets gone", "Targets missed in their window."),
            slos_in(SloState.BURNING, "Budgets burning", "Gone before their window ends."),
            slos_in(SloState.FROZEN, "SLOs frozen", "Telemetry is missing: not healthy."),
            number(least, Line(f"min({_COVERAGE})"), above(thresholds.coverage_ratio)),
            _not_ok(),
        ],
    )  # fmt: skip


def _not_ok() -> Panel:
    metadata = Metadata(
        "SLOs that are not OK", "By job.", "none", 24, "none known: all SLOs that are known are OK"
    )
    expr = f"({_STATE} unless {fleet.of_jobs(names.SLO_STATE, SLO, STATE, matching=_OK)}) == 1"
    columns = {JOB: "job", SLO: "SLO", STATE: "state"}
    table = rows(metadata, Line(f"topk(100, {expr})"), columns=columns, height=8)
    return linked(coloured(table, "state", STATE_COLORS), "job", *JOB_LINK)


_OK = f'{STATE}="{SloState.OK.value}"'


def _budgets() -> Section:
    spent = Metadata("Most budget spent", "Beyond 100% the target is missed.", "percentunit", 12)
    burn = Metadata("Burning budgets", "How many times too fast.", "none", 12, "none known to burn")
    over_time = Metadata(
        "Budget spent over time", "The twenty that spent most. A rise is a bad hour.",
        "percentunit", 24,
    )  # fmt: skip
    rate = fleet.of_jobs(names.SLO_BURN_RATE, SLO, SEVERITY)
    return Section(
        "Budgets",
        [
            job_table(spent, fleet.worst(_SPENT), "spent", SLO),
            job_table(burn, fleet.worst(rate), "rate", SLO, SEVERITY),
            lines(over_time, Line(fleet.worst(_SPENT), legend(JOB, SLO)), threshold=1, floor=None),
        ],
    )


def _behind(thresholds: Thresholds) -> Section:
    lowest = Metadata("Lowest good share", "By job and SLI, lowest first.", "percentunit", 12)
    classes = Metadata("Jobs by class", "A job's objectives depend on its class.", "none", 12)
    coverage = Metadata("Coverage", "Observed over expected step records.", "percentunit", 12)
    shares = Metadata(
        "Good share", "Good over counted device-seconds, all jobs.", "percentunit", 12
    )
    by_class = fleet.total(fleet.of_jobs(names.JOB_INFO, JOB_CLASS), JOB_CLASS)
    ratio = f"{fleet.total(_GOOD, SLI)} / ({fleet.total(_ALL, SLI)} > 0)"
    low = fleet.worst(_COVERAGE, "bottomk")
    return Section(
        "Causes and classes",
        [
            job_table(lowest, fleet.worst(f"{_GOOD} / ({_ALL} > 0)", "bottomk"), "share", SLI),
            number(classes, Line(by_class, legend(JOB_CLASS))).height(6),
            lines(coverage, Line(low, legend(JOB)), threshold=thresholds.coverage_ratio),
            lines(shares, Line(ratio, legend(SLI)), floor=None),
        ],
    )
