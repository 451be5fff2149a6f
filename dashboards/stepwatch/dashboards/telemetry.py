"""The job dashboard's row on its own reliability."""

from __future__ import annotations

from stepwatch.signals.names import NODE, PROBE_UP, VERDICT

from . import queries
from .layout import Section
from .panels import Line, Metadata, Panel, lines, number, rows
from .sections import ANY, legend
from .thresholds import Thresholds


def telemetry(thresholds: Thresholds) -> Section:
    """Return panels on reliability: the path from ranks to collector, for all jobs."""
    return Section("Telemetry (all jobs)", [*_collector(thresholds), *_agents()])


def _collector(thresholds: Thresholds) -> list[Panel]:
    age = Metadata("Record age over time", "Of this job; the dashed line fires the alert.", "s", 12)
    segments = Metadata(
        "Segments received", "By verdict; a rejected segment is lost data.", "eps", 12
    )
    seconds = Metadata("Evaluation time", "Time the newest evaluation took.", "s")
    failures = Metadata(
        "Failed evaluations", "In the last minutes; a failed evaluation finds nothing."
    )
    capped = Metadata("Jobs left out", "Jobs beyond the series cap; they are not monitored here.")
    return [
        lines(age, Line(queries.RECORD_AGE, "age"), threshold=thresholds.stale_seconds),
        lines(segments, Line(queries.SEGMENTS, legend(VERDICT))),
        number(seconds, Line(queries.EVALUATION)),
        number(failures, Line(queries.EVALUATION_FAILURES), ANY),
        number(capped, Line(queries.JOBS_CAPPED), ANY),
    ]


def _agents() -> list[Panel]:
    spool = Metadata(
        "Agent spool", "Bytes waiting; it grows while the collector does not answer.", "bytes"
    )
    lost = Metadata(
        "Records lost per second", "Overwritten in rings, or dropped from spools.", "recps"
    )
    sends = Metadata("Failed sends per second", "Sends that the collector did not accept.", "eps")
    probes = Metadata("Probes", "1: the probe's source can be read; 0: it cannot.", "short", 24)
    probe = PROBE_UP.labels[-1]
    return [
        lines(spool, Line(queries.SPOOL, legend(NODE))),
        lines(
            lost,
            Line(queries.OVERRUNS, f"{legend(NODE)} overrun"),
            Line(queries.DROPPED, f"{legend(NODE)} dropped"),
        ),
        lines(sends, Line(queries.SEND_FAILURES, legend(NODE))),
        rows(
            probes,
            Line(queries.PROBES),
            columns={NODE: "node", probe: "probe", "Value": "up"},
        ),
    ]
