"""Tables that several dashboards share, and where their rows lead."""

from __future__ import annotations

from stepwatch.signals import names
from stepwatch.signals.names import HEALTH, JOB, NODE, NODE_FACTS

from . import fleet
from .panels import Line, Metadata, Panel, linked, number, rows
from .sdk import table

JOB_UID = "stepwatch-training-job"
NODE_UID = "stepwatch-nodes"
JOB_LINK = ("Open the job", f"/d/{JOB_UID}?var-job=${{__value.raw}}&${{__url_time_range}}")
NODE_LINK = ("Open the node", f"/d/{NODE_UID}?var-node=${{__value.raw}}&${{__url_time_range}}")


def job_table(metadata: Metadata, expr: str, heading: str, *by: str) -> Panel:
    """A table of jobs and one value; each job leads to its dashboard."""
    columns = {JOB: "job", **{label: label for label in by}, "Value": heading}
    return linked(rows(metadata, Line(expr), columns=columns), "job", *JOB_LINK)


def health() -> Panel:
    """How many nodes are in each health."""
    metadata = Metadata("Nodes by health", "Of all nodes that the collector knows.", "none")
    expr = fleet.of_all(names.COLLECTOR_NODES, HEALTH)
    return number(metadata, Line(expr, f"{{{{{HEALTH}}}}}"))


def facts() -> table.Panel:
    """What probes find wrong with nodes now."""
    metadata = Metadata(
        "Facts of nodes", "What probes find wrong now. Empty: nothing found by those up.", "none"
    )
    _, kind, severity = NODE_FACTS.labels
    expr = fleet.worst(f"{fleet.of_all(NODE_FACTS, NODE, kind, severity)} > 0")
    columns = {NODE: "node", kind: "fact", severity: "severity", "Value": "facts"}
    return rows(metadata, Line(expr), columns=columns)
