"""Tables that several dashboards share, with links from their rows."""

from __future__ import annotations

from stepwatch.collector.slo.states import SloState
from stepwatch.signals import names
from stepwatch.signals.names import HEALTH, JOB, JOB_CLASS, NODE_FACTS, SLI, SLO, SPENT, STATE

from . import fleet
from .panels import (
    BAD,
    NEUTRAL,
    NONE_KNOWN,
    WARNING,
    Line,
    Metadata,
    Panel,
    Steps,
    coloured_numbers,
    linked,
    number,
    rows,
)
from .sdk import stat, table
from .thresholds import Thresholds

JOB_UID = "stepwatch-training-job"
NODE_UID = "stepwatch-nodes"
DEBUG_UID = "stepwatch-debug"
JOB_LINK = ("Open the job", f"/d/{JOB_UID}?var-job=${{__value.raw}}&${{__url_time_range}}")
NODE_LINK = ("Open the node", f"/d/{NODE_UID}?var-node=${{__value.raw}}&${{__url_time_range}}")


_HEADINGS = {JOB_CLASS: "class", SLO: "SLO", SLI: "SLI", SPENT: "spent on"}


def page_of_row(thresholds: Thresholds) -> str:
    """Return the address of the row's job page on the collector, with evidence and runbooks."""
    return f"{thresholds.page}/jobs/${{__data.fields.job:percentencode}}"


def job_table(metadata: Metadata, expr: str, heading: str, *labels: str) -> Panel:
    """Return a table with one value per job; each job links to its dashboard."""
    columns = {
        JOB: "job",
        **{label: _HEADINGS.get(label, label) for label in labels},
        "Value": heading,
    }
    return linked(rows(metadata, Line(expr), columns=columns), "job", *JOB_LINK)


def health(width: int = 8) -> Panel:
    """Return the number of nodes per health state."""
    metadata = Metadata("Nodes by health", "Of all nodes that the collector knows.", "none", width)
    expr = fleet.of_all(names.COLLECTOR_NODES, HEALTH)
    panel = number(metadata, Line(expr, f"{{{{{HEALTH}}}}}"))
    return coloured_numbers(panel, {"degraded": WARNING, "failed": BAD})


def slos_in(state: SloState, title: str, text: str, width: int = 6) -> stat.Panel:
    """Return the number of selected jobs' SLOs in a state; one missed SLO is bad."""
    matching = f'{STATE}="{state.value}"'
    counted = f"count({fleet.of_jobs(names.SLO_STATE, SLO, matching=matching)} == 1)"
    bad = state in (SloState.EXHAUSTED, SloState.BURNING)
    steps: Steps = ((None, NEUTRAL), (1, BAD)) if bad else ((None, NEUTRAL),)
    return number(Metadata(title, text, "none", width, NONE_KNOWN), Line(counted), steps)


def facts(matching: str = "") -> table.Panel:
    """Return current node faults from probes; `matching` filters by a label matcher."""
    metadata = Metadata(
        "Faults of nodes", "Faults that probes find now. No row: working probes find none.", "none",
        empty=NONE_KNOWN,
    )  # fmt: skip
    chosen = f"{{{matching}}}" if matching else ""
    expr = f"max by ({', '.join(_FACT)}) ({NODE_FACTS.name}{chosen}) > 0"
    return _fact_rows(metadata, fleet.worst(expr))


def facts_of_job() -> Panel:
    """Return current faults on the selected job's nodes."""
    metadata = Metadata(
        "Faults of its nodes", "Faults that probes find. No row: working probes find none.", "none",
        12, NONE_KNOWN,
    )  # fmt: skip
    expr = fleet.on_nodes_of_job(f"{fleet.of_all(NODE_FACTS, *_FACT)} > 0")
    return linked(_fact_rows(metadata, fleet.worst(expr)), "node", *NODE_LINK)


_FACT = NODE_FACTS.labels


def _fact_rows(metadata: Metadata, expr: str) -> table.Panel:
    columns = {**dict(zip(_FACT, ("node", "fault", "severity"), strict=True)), "Value": "faults"}
    return rows(metadata, Line(expr), columns=columns)
