"""Dashboard "Training: cost": the jobs' cost, their waste, and its causes."""

from __future__ import annotations

from stepwatch.collector.slo.waste.causes import Spent
from stepwatch.dashboards import fleet, frame, spending
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import job_table
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import Line, Metadata, Panel, lines, number
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import legend, runbook
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import CURRENCY, JOB, SPENT

UID = "stepwatch-cost"
FILE = "cost.json"
TITLE = "Training: cost"

_NO_RATES = "no rate card: start the collector with --rates FILE"
_TOKENS = fleet.of_jobs(names.JOB_TOKENS)


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = (
        "Cost of the chosen jobs since each began, the waste in it, and its causes. "
        "Money needs a rate card (`stepwatch collector --rates FILE`)."
    )
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=True)
    page = frame.of_jobs(page).link(runbook(thresholds, names.ALERT_COST_ANOMALY))
    return place(page, [_waste(), _money(), _token_costs()])


def _waste() -> Section:
    share = Metadata("Most waste", "Share of a job's device-time that was not productive.",
                     "percentunit")  # fmt: skip
    lost = f"1 - {spending.PRODUCTIVE_SECONDS} / ({spending.ALL_SECONDS} > 0)"
    return Section(
        "Waste",
        [
            *spending.money(),
            spending.productive_share(),
            _allocated(),
            job_table(share, fleet.worst(lost), "waste").height(8),
            spending.spent_hours(),
            _causes(),
            spending.uses_over_time(24),
        ],
    )


def _allocated() -> Panel:
    metadata = Metadata("Devices allocated", "Of the last 10 minutes, all chosen jobs.", "none", 6)
    growth = fleet.total(fleet.growth_of_jobs(names.DEVICE_SECONDS, SPENT))
    return number(metadata, Line(growth))


def _causes() -> Panel:
    metadata = Metadata("Waste by job and cause", "Device-hours, most first.", "none")
    wasted = f'{SPENT}!="{Spent.PRODUCTIVE}"'
    hours = f"{fleet.of_jobs(names.DEVICE_SECONDS, SPENT, matching=wasted)} / 3600"
    return job_table(metadata, fleet.worst(f"{hours} > 0"), "device-hours", SPENT).height(8)


def _money() -> Section:
    hourly = Metadata(
        "Money per hour", "Of the last 10 minutes, the twenty dearest jobs.", "none", 12, _NO_RATES
    )
    spent = Metadata("Spent so far", "By job, most first.", "none", 12, _NO_RATES)
    growth = f"3600 * {fleet.growth_of_jobs(names.JOB_COST, CURRENCY)}"
    return Section(
        "Money",
        [
            lines(hourly, Line(fleet.worst(growth), legend(JOB, CURRENCY))),
            job_table(spent, fleet.worst(spending.COST), "money", CURRENCY).height(8),
            spending.by_project(),
        ],
    )


def _token_costs() -> Section:
    token = Metadata(
        "Money for a million tokens",
        "Dearest first. Tokens that a restart made again count twice here.",
        "none",
        12,
        _NO_RATES,
    )
    hour = Metadata("Tokens for a device-second", "Slowest first; compare jobs of one model.",
                    "none", 12)  # fmt: skip
    money = f"1e6 * {spending.COST} / on ({JOB}) group_left () ({_TOKENS} > 0)"
    pace = f"{_TOKENS} / on ({JOB}) ({spending.ALL_SECONDS} > 0)"
    return Section(
        "What a token costs",
        [
            job_table(token, fleet.worst(money), "money", CURRENCY),
            job_table(hour, fleet.worst(pace, "bottomk"), "tokens"),
        ],
    )
