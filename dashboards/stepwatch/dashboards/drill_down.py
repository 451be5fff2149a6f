"""Tables that several dashboards share, and where their rows lead."""

from __future__ import annotations

from stepwatch.signals import names
from stepwatch.signals.names import HEALTH, JOB, NODE_FACTS

from . import fleet
from .panels import Line, Metadata, Panel, linked, number, rows
from .sdk import table

JOB_UID = "stepwatch-training-job"
NODE_UID = "stepwatch-nodes"
DEBUG_UID = "stepwatch-debug"
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


def facts(matching: str = "") -> table.Panel:
    """What probes find wrong with nodes now; `matching` narrows the facts by a label matcher."""
    metadata = Metadata(
        "Faults of nodes", "What probes find wrong now. No row: nothing found by those up.", "none"
    )
    chosen = f"{{{matching}}}" if matching else ""
    expr = f"max by ({', '.join(_FACT)}) ({NODE_FACTS.name}{chosen}) > 0"
    return _fact_rows(metadata, fleet.worst(expr))


def facts_of_job() -> Panel:
    """What probes find wrong with the nodes of the chosen job."""
    metadata = Metadata(
        "Faults of its nodes", "What probes find wrong. No row: nothing found by those up.", "none",
        12,
    )  # fmt: skip
    expr = fleet.on_nodes_of_job(f"{fleet.of_all(NODE_FACTS, *_FACT)} > 0")
    return linked(_fact_rows(metadata, fleet.worst(expr)), "node", *NODE_LINK)


_FACT = NODE_FACTS.labels


def _fact_rows(metadata: Metadata, expr: str) -> table.Panel:
    columns = {**dict(zip(_FACT, ("node", "fault", "severity"), strict=True)), "Value": "faults"}
    return rows(metadata, Line(expr), columns=columns)
