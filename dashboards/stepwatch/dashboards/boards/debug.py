"""Dashboard "Training: debug": one job in depth, for root cause analysis."""

from __future__ import annotations

from stepwatch.dashboards import fleet, frame, queries
from stepwatch.dashboards.annotations import annotated
from stepwatch.dashboards.drill_down import DEBUG_UID, NODE_LINK, facts_of_job
from stepwatch.dashboards.layout import Section, place
from stepwatch.dashboards.panels import (
    Line,
    Metadata,
    Panel,
    heat,
    lines,
    link,
    linked,
    number,
    rows,
)
from stepwatch.dashboards.sdk import builders
from stepwatch.dashboards.sections import ANY, legend, stragglers, where_time_goes
from stepwatch.dashboards.thresholds import Thresholds
from stepwatch.signals import names
from stepwatch.signals.names import CLOCK, DEVICE_METRICS, NODE, OPERATION, PART, SPENT, STAGE

UID = DEBUG_UID
FILE = "debug.json"
TITLE = "Training: debug"


def build(thresholds: Thresholds) -> builders.Dashboard:
    """Build the dashboard; `finalise.text` turns it into its file."""
    description = (
        "One job in depth: its slow ranks, its step time, and its nodes. The collector's "
        "page of the job shows each rank, collective and pipeline stage."
    )
    page = annotated(frame.page(TITLE, UID, description, thresholds), several=False)
    page = page.with_variable(frame.choice(queries.JOB_VARIABLE, "Job", queries.JOBS)).link(
        link("Ranks, collectives, stages", f"{thresholds.page}/jobs/{queries.CHOSEN_JOB}")
    )
    sections = [
        _slow_ranks(thresholds),
        _steps(),
        where_time_goes(),
        _spent(),
        _nodes(),
        _records(),
    ]
    return place(page, sections)


def _slow_ranks(thresholds: Thresholds) -> Section:
    return Section("Who is slow", [stragglers(thresholds), facts_of_job(), _slowest_nodes()])


def _slowest_nodes() -> Panel:
    metadata = Metadata(
        "Step of the slowest rank by node",
        "Lowest first: a node whose step stays behind holds the job.",
        "none",
        12,
    )
    columns = {NODE: "node", "Value": "step"}
    table = rows(metadata, Line(queries.SLOWEST_NODE_STEP), columns=columns)
    return linked(table, "node", *NODE_LINK)


_ON_HOST = "unknown: steps are timed on the host"


def _steps() -> Section:
    bands = Metadata("Step times", "Steps by duration; two bands are two kinds of step.", "s", 12)
    clocks = Metadata("Steps per second", "By the clock that timed them.", "none", 12)
    idle = Metadata(
        "Devices without work",
        "Share of the newest steps in which nothing was enqueued; hosts are too slow. An upper "
        "bound.",
        "percentunit",
        12,
        _ON_HOST,
    )
    lead = Metadata(
        "Hosts ahead of devices",
        "At the end of a step; near 0 means that the device waits for its host.",
        "s",
        12,
        _ON_HOST,
    )
    stages = Metadata(
        "Stages without work",
        "Share of the newest steps that a pipeline stage waited for neighbours or in collectives.",
        "percentunit",
        24,
        "one stage",
    )
    collectives = Metadata(
        "Collectives by operation",
        "A rank's blocked time in a step: the transfer, or the wait for the last to arrive "
        "(arrival-skew). Unknown where not all members report.",
        "s",
        24,
    )
    traced = Metadata(
        "Traced steps",
        "Mean length of the traced steps. A point is one step of a rank and leads to its trace.",
        "s",
        24,
        "none: the agents have no --otlp",
    )
    return Section(
        "Steps",
        [
            heat(bands, Line(queries.STEP_HEAT, legend(queries.LE))),
            lines(clocks, Line(queries.STEPS_BY_CLOCK, legend(CLOCK))),
            lines(idle, Line(queries.DEVICE_IDLE_SHARE, "idle")),
            lines(lead, Line(queries.HOST_AHEAD, "ahead"), floor=None),
            lines(stages, Line(queries.STAGE_IDLE_SHARE, legend(STAGE))),
            lines(
                collectives,
                Line(queries.COLLECTIVES_BY_OPERATION, legend(OPERATION, PART)),
                stacked=True,
            ),
            lines(traced, Line(queries.TRACED_STEP_LENGTH, "length", exemplars=True)),
        ],
    )


def _spent() -> Section:
    metadata = Metadata(
        "Device-time by use",
        "Share of all that was allocated since the job began. Unknown is not productive.",
        "percentunit",
        24,
    )
    return Section(
        "Device-time by outcome",
        [lines(metadata, Line(queries.SPENT_SHARE, legend(SPENT)), stacked=True)],
    )


def _of_nodes(title: str, text: str, unit: str, expr: str, threshold: float | None = None) -> Panel:
    shown = fleet.worst(fleet.on_nodes_of_job(expr))
    return lines(Metadata(title, text, unit), Line(shown, legend(NODE)), threshold=threshold)


def _nodes() -> Section:
    free = f"{_node(names.NODE_MEMORY_AVAILABLE)} / {_node(names.NODE_MEMORY_TOTAL)}"
    devices = {name: DEVICE_METRICS[name] for name in ("busy_ratio", "temperature_celsius")}
    used = f"{_device('memory_used_bytes')} / {_device('memory_total_bytes')}"
    stalled = fleet.of_all(names.NODE_PRESSURE, NODE)
    busy = fleet.of_each_device(devices["busy_ratio"], "avg")
    return Section(
        "Its nodes, the worst twenty",
        [
            _of_nodes("CPU busy", "Share of all CPUs.", "percentunit", _node(names.NODE_CPU_BUSY)),
            _of_nodes("Pressure", "Stalled on CPU, memory or disk.", "percentunit", stalled),
            _of_nodes("Memory in use", "OOM is near at 100%.", "percentunit", f"1 - {free}", 1),
            _of_nodes("Devices busy", "Mean of a node's devices.", "percentunit", busy),
            _of_nodes("Device memory", "Of the fullest device.", "percentunit", used, 1),
            _of_nodes(
                "Hottest device", "Of each node.", "celsius",
                fleet.of_each_device(devices["temperature_celsius"], "max"),
            ),
        ],
    )  # fmt: skip


def _node(metric: names.Metric) -> str:
    return fleet.of_all(metric, NODE)


def _device(field: str) -> str:
    return fleet.of_each_device(DEVICE_METRICS[field], "max")


def _records() -> Section:
    shared = Metadata(
        "Ranks on two nodes", "More than 0: two runs share the job's name.", "none", 6
    )
    unread = Metadata("Segments not read", "Every view misses them.", "none", 6)
    ranks = Metadata("Ranks by node", "With a live ring.", "none", 12)
    lost = Metadata("Records lost", "Overwritten before they were read, or damaged.", "none", 12)
    errors = Metadata("Errors in hooks", "Contained: the trainer continues.", "none", 12)
    overrun = Line(f"sum({queries.OVERRUN_RECORDS})", "overwritten")
    return Section(
        "Is this complete",
        [
            number(shared, Line(queries.SHARED_RANKS), ANY),
            number(unread, Line(queries.UNREAD_SEGMENTS), ANY),
            lines(ranks, Line(fleet.worst(queries.RANKS_BY_NODE), legend(NODE))),
            lines(lost, overrun, Line(f"sum({queries.TORN_RECORDS})", "damaged")),
            lines(errors, Line(f"sum({queries.HOOK_ERRORS})", "errors")),
        ],
    )
