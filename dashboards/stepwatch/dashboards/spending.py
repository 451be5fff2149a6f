"""Panels on the use and cost of allocated device-time."""

from __future__ import annotations

from stepwatch.collector.slo.waste.causes import Spent
from stepwatch.signals import names
from stepwatch.signals.names import CURRENCY, JOB, PROJECT, SPENT, TEAM

from . import fleet
from .panels import Line, Metadata, Panel, lines, number, rows

_PRODUCTIVE = f'{SPENT}="{Spent.PRODUCTIVE}"'
SPENT_ON = fleet.of_jobs(names.DEVICE_SECONDS, SPENT)
ALL_SECONDS = fleet.total(SPENT_ON, names.JOB)
PRODUCTIVE_SECONDS = fleet.of_jobs(names.DEVICE_SECONDS, matching=_PRODUCTIVE)
COST = fleet.of_jobs(names.JOB_COST, CURRENCY)
WASTED_COST = (
    f"{COST} * on ({names.JOB}) group_left () (1 - {PRODUCTIVE_SECONDS} / ({ALL_SECONDS} > 0))"
)
"""Money for unproductive device-time, at the job's mean rate."""


_NO_RATES = "no rate card"


def spent_hours(width: int = 8) -> Panel:
    """Return device-hours by use, largest first."""
    metadata = Metadata(
        "Device-hours by use",
        "Allocated to the chosen jobs since each began. Unknown is not productive.",
        "none",
        width,
    )
    by_use = f"sort_desc({fleet.total(SPENT_ON, SPENT)} / 3600)"
    columns = {SPENT: "spent on", "Value": "device-hours"}
    return rows(metadata, Line(by_use), columns=columns, height=8)


def productive_share() -> Panel:
    """Return the productive share of allocated device-time."""
    metadata = Metadata(
        "Productive share",
        "Of allocated device-time, since the chosen jobs began. The rest is in the table below.",
        "percentunit",
        6,
    )
    share = f"{fleet.total(PRODUCTIVE_SECONDS)} / ({fleet.total(SPENT_ON)} > 0)"
    return number(metadata, Line(share))


def uses_over_time(width: int = 16) -> Panel:
    """Return the current number of allocated devices by use."""
    metadata = Metadata(
        "Devices by use",
        "Device-seconds per second, of the last 10 minutes; together all that are allocated.",
        "none",
        width,
    )
    growth = fleet.total(fleet.growth_of_jobs(names.DEVICE_SECONDS, SPENT), SPENT)
    return lines(metadata, Line(growth, f"{{{{{SPENT}}}}}"), stacked=True)


def money() -> list[Panel]:
    """Return the selected jobs' cost so far, and its unproductive part."""
    legend = f"{{{{{CURRENCY}}}}}"
    cost = Metadata("Money spent", "Since the jobs began, at the rate card.", "none", 6, _NO_RATES)
    wasted = Metadata(
        "Money wasted", "The part of it that was not productive.", "none", 6, _NO_RATES
    )
    return [
        number(cost, Line(fleet.total(COST, CURRENCY), legend)),
        number(wasted, Line(fleet.total(WASTED_COST, CURRENCY), legend)),
    ]


def by_project(width: int = 24) -> Panel:
    """Return the cost so far by project and team."""
    metadata = Metadata(
        "Money by project",
        "Since the jobs began, most first. Unknown: neither job nor site file names an owner.",
        "none",
        width,
        _NO_RATES,
    )
    # An owner may change, and a join would match two while two collectors disagree.
    owner = f"topk by ({JOB}) (1, {fleet.of_jobs(names.JOB_OWNER, PROJECT, TEAM)})"
    joined = f"{COST} * on ({JOB}) group_left ({PROJECT}, {TEAM}) {owner}"
    columns = {PROJECT: "project", TEAM: "team", CURRENCY: "currency", "Value": "money"}
    return rows(
        metadata,
        Line(f"sort_desc({fleet.total(joined, PROJECT, TEAM, CURRENCY)})"),
        columns=columns,
    )
