"""Report on device time over some days. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stepwatch.collector.detect.finding import Confidence
from stepwatch.collector.nodes.fleet import Node
from stepwatch.collector.slo.asked.owners import owner_in
from stepwatch.collector.slo.asked.rates import RateCard
from stepwatch.collector.slo.waste import CAUSES, COLUMNS, MICROSECONDS, Spent
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.web.fleet.figures import cost_of_days
from stepwatch.collector.web.schema.report import (
    NodeHistory,
    ReportAnswer,
    ReportIncident,
    ReportJob,
    ReportNode,
    ReportSlo,
    Summed,
)
from stepwatch.signals.names import Cause, FindingKind

WORST = 10
"""Number of listed incidents (highest device-time cost) and nodes (most often named)."""


def report_document(
    days: Sequence[AccountDay],
    incidents: Iterable[Mapping[str, Any]],
    from_s: int,
    until_s: int,
    slos: Sequence[ReportSlo] = (),
    nodes: Sequence[Node] = (),
    rates: RateCard | None = None,
) -> ReportAnswer:
    """Return device-seconds by cause per job, class, day and in total, and the costliest incidents.

    `days` and `incidents` cover the whole UTC days from `from_s` to `until_s` (Unix seconds).
    Ratios are sums over sums, None if nothing was allocated. Each job's allocated device-seconds
    are also listed by day, because prices may change. `slos` holds SLO lines per class, `nodes` the
    nodes with a known history, `rates` the prices.
    """
    by_job: dict[str, list[AccountDay]] = {}
    by_day: dict[int, list[AccountDay]] = {}
    by_class: dict[str, list[AccountDay]] = {}
    for day in days:
        by_class.setdefault(day.job_class, []).append(day)
        by_job.setdefault(day.job, []).append(day)
        by_day.setdefault(day.day_s, []).append(day)
    inside = [
        incident
        for incident in incidents
        if from_s <= incident["opened_at"] < until_s and incident["job"] in by_job
        if not incident.get("merged_into")
    ]
    return {
        "from": from_s,
        "until": until_s,
        "causes": [str(cause) for cause in CAUSES],
        "total": _summed(days, rates),
        "jobs": [_job(job, job_days, rates) for job, job_days in sorted(by_job.items())],
        "classes": [
            {
                "job_class": name,
                "jobs": len({day.job for day in class_days}),
                **_summed(class_days, rates),
            }
            for name, class_days in sorted(by_class.items())
        ],
        "days": [
            {"day": start, **_summed(accounts, rates)} for start, accounts in sorted(by_day.items())
        ],
        "slos": list(slos),
        "incidents": [_incident(incident) for incident in _worst(inside)],
        "incident_count": len(inside),
        "nodes": _nodes(inside, nodes),
    }


def _job(job: str, days: Sequence[AccountDay], rates: RateCard | None) -> ReportJob:
    """Return one job; `job_class` and `owner` are from its newest day."""
    return {
        "job": job,
        "job_class": days[-1].job_class,
        "owner": owner_in(days[-1].document),
        "allocated_by_day": {
            str(day.day_s): _summed([day], None)["allocated_seconds"] for day in days
        },
        **_summed(days, rates),
    }


def _summed(days: Sequence[AccountDay], rates: RateCard | None) -> Summed:
    totals: Counter[str] = Counter()
    for day in days:
        totals.update({name: int(day.document.get(name, 0)) for name in COLUMNS})
    seconds = {str(cause): totals[cause] / MICROSECONDS for cause in CAUSES}
    allocated = sum(totals[cause] for cause in CAUSES)
    return {
        "seconds": seconds,
        "allocated_seconds": allocated / MICROSECONDS,
        "productive_ratio": totals[Spent.PRODUCTIVE] / allocated if allocated else None,
        # Steps without tokens belong to a job that does not count them.
        "tokens": totals["tokens"] or (None if totals["steps"] else 0),
        "steps": totals["steps"],
        "cost": cost_of_days(days, rates),
    }


def _worst(incidents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(incidents, key=lambda incident: -float(incident["device_seconds_lost"] or 0.0))[
        :WORST
    ]


def _incident(incident: Mapping[str, Any]) -> ReportIncident:
    return {
        "id": incident.get("id", ""),
        "job": incident.get("job", ""),
        "kind": incident.get("kind", ""),
        "cause": incident.get("cause", ""),
        "rank": incident.get("rank", -1),
        "node": incident.get("node", ""),
        "state": incident.get("state", ""),
        "opened_at": incident["opened_at"],
        "resolved_at": incident.get("resolved_at"),
        "device_seconds_lost": _lost(incident),
        "summary": incident.get("summary", ""),
        "runbook": incident.get("runbook", ""),
    }


def _lost(incident: Mapping[str, Any]) -> float | None:
    """Return the incident's device-seconds; None if its cost is unknown."""
    lost = float(incident["device_seconds_lost"] or 0.0)
    return lost if lost or incident.get("throughput_lost_ratio") is not None else None


_OF_THE_JOB = frozenset(
    {
        Cause.EXCEPTION,
        Cause.BUSY,
        Cause.INTERPRETER_BLOCKED,
        Cause.PROCESS_STOPPED,
        Cause.MISMATCHED_ORDER,
        Cause.MISMATCHED_SHAPE,
        Cause.UNEVEN_SHARDS,
        Cause.STAGE_IMBALANCE,
        Cause.FEW_MICROBATCHES,
        Cause.LOSS_SPIKE,
        Cause.LOSS_PLATEAU,
        Cause.LOSS_DIVERGENCE,
        Cause.IMPORT_ERROR,
        Cause.ASSERTION,
        Cause.CHECKPOINT_MISMATCH,
    }
)
"""Causes in the job's own code, independent of the node."""
_WAITS = frozenset({Cause.NOT_ARRIVED, Cause.UNKNOWN})
"""Pause causes that nothing on the node explains."""


def _is_of_node(incident: Mapping[str, Any]) -> bool:
    """Return whether the node that an incident names may be at fault."""
    if not incident["node"] or incident.get("cause") in _OF_THE_JOB:
        return False
    if incident.get("kind") == FindingKind.PAUSE.value and incident.get("cause") in _WAITS:
        return False
    return bool(incident["rank"] >= 0 or incident.get("confidence") != Confidence.ONE_OF)


def _nodes(incidents: Iterable[Mapping[str, Any]], fleet: Sequence[Node]) -> list[ReportNode]:
    """Return the nodes at fault in incidents, with their cost and fault counts.

    Nodes with the most incidents come first, then repeat offenders without an incident. Unknown
    values are None.
    """
    counts: Counter[str] = Counter()
    lost: dict[str, float] = {}
    for incident in incidents:
        if _is_of_node(incident):
            counts[incident["node"]] += 1
            more = _lost(incident)
            if more is not None:
                lost[incident["node"]] = lost.get(incident["node"], 0.0) + more
    by_name = {node.name: node for node in fleet}
    offenders = sorted(
        (node for node in fleet if node.is_offender() and node.name not in counts),
        key=lambda node: (-node.faults_month, node.name),
    )
    named = [name for name, _ in counts.most_common(WORST)]
    return [
        {
            "node": name,
            "incidents": counts[name],
            "device_seconds_lost": lost.get(name) if counts[name] else 0.0,
            **_history(by_name.get(name)),
        }
        for name in [*named, *(node.name for node in offenders[:WORST])]
    ]


def _history(node: Node | None) -> NodeHistory:
    return {
        "faults_30d": None if node is None else node.faults_month,
        "health": None if node is None else str(node.state.health),
        "repeat_offender": None if node is None else node.is_offender(),
    }
