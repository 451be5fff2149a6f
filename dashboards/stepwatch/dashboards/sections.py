"""The job dashboard's rows, each for one on-call question."""

from __future__ import annotations

from stepwatch.collector.slo.states import SloState
from stepwatch.signals.names import (
    ALERT_HANG,
    ALERT_LOSS_ANOMALY,
    ALERT_NON_FINITE,
    ALERT_REPLICA_DRIFT,
    ALERT_SILENT_CORRUPTION,
    ALERT_STRAGGLER,
    ALERT_TELEMETRY_LOST,
    CAUSE,
    KIND,
    OUTCOME,
    PHASE,
    SLO,
    SLOT,
    STATE,
)

from . import queries
from .layout import Section
from .panels import (
    BAD,
    GOOD,
    NEUTRAL,
    NONE_KNOWN,
    WARNING,
    Line,
    Metadata,
    Panel,
    Steps,
    coloured,
    heat,
    lines,
    link,
    number,
    rows,
)
from .sdk import builders
from .thresholds import Thresholds

STATE_COLORS = {
    SloState.OK.value: GOOD,
    SloState.BURNING.value: WARNING,
    SloState.EXHAUSTED.value: BAD,
    SloState.FROZEN.value: NEUTRAL,
    SloState.UNKNOWN.value: NEUTRAL,
    SloState.TOO_EARLY.value: NEUTRAL,
}
"""Colour by SLO state: an unknown state is neither good nor bad."""

ANY: Steps = ((None, NEUTRAL), (1, BAD))
"""Zero is neutral, since a collector without telemetry also counts zero; one is bad."""


def legend(*labels: str) -> str:
    """Return a legend with the labels' values."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def wrong(thresholds: Thresholds) -> Section:
    """Return the problems: incidents, progress, coverage, SLOs, stragglers."""
    return Section(
        "What is wrong",
        [
            *_signs_of_life(thresholds),
            _incidents(thresholds),
            _states(),
            _budgets(),
            stragglers(thresholds),
        ],
    )


def _signs_of_life(thresholds: Thresholds) -> list[Panel]:
    running = Metadata("Expected to run", "1 while the job should make progress.", "short", 4)
    incidents = Metadata(
        "Open incidents", "Trust a 0 only while coverage and record age are green.", "short", 5
    )
    stalled = Metadata(
        "Without progress", "Time since a rank last changed its step or phase.", "s", 5
    )
    age = Metadata(
        "Age of newest record",
        "Grows when telemetry is missing; then all other panels are out of date.",
        "s",
        5,
    )
    coverage = Metadata(
        "Telemetry coverage", "Observed over expected step records.", "percentunit", 5
    )
    return [
        number(running, Line(queries.RUNNING)),
        number(incidents, Line(queries.INCIDENT_COUNT), ANY),
        number(stalled, Line(queries.WITHOUT_PROGRESS), below(thresholds.stalled_seconds)).links(
            [runbook(thresholds, ALERT_HANG)]
        ),
        number(age, Line(queries.RECORD_AGE), below(thresholds.stale_seconds)).links(
            [runbook(thresholds, ALERT_TELEMETRY_LOST)]
        ),
        number(coverage, Line(queries.COVERAGE), above(thresholds.coverage_ratio)).links(
            [runbook(thresholds, ALERT_TELEMETRY_LOST)]
        ),
    ]


def below(threshold: float) -> Steps:
    """Return steps that are good below a threshold, and bad from it upwards."""
    return ((None, GOOD), (threshold, BAD))


def above(threshold: float) -> Steps:
    """Return steps that are bad below a threshold, and good from it upwards."""
    return ((None, BAD), (threshold, GOOD))


def runbook(thresholds: Thresholds, alert: str) -> builders.DashboardLink:
    """Return a link to an alert's runbook."""
    return link(f"Runbook {alert}", thresholds.runbooks[alert])


def _incidents(thresholds: Thresholds) -> Panel:
    metadata = Metadata(
        "Open incidents by kind",
        "`stepwatch diagnose` names the evidence. No row is good only while telemetry arrives.",
        "none",
        empty=NONE_KNOWN,
    )
    columns = {KIND: "kind", "Value": "open"}
    table = rows(metadata, Line(queries.WORST_INCIDENTS), columns=columns, height=8)
    return table.links([runbook(thresholds, alert) for alert in sorted(thresholds.runbooks)])


def _states() -> Panel:
    metadata = Metadata("SLO state", "The state each SLO is in; frozen or unknown is not healthy.")
    columns = {SLO: "SLO", STATE: "state"}
    table = rows(metadata, Line(queries.SLO_STATES), columns=columns, height=8)
    return coloured(table, "state", STATE_COLORS)


def _budgets() -> Panel:
    metadata = Metadata(
        "Error budget spent",
        "Of the window's budget; beyond 100% the target is missed. No data while unknown.",
        "percentunit",
    )
    return lines(metadata, Line(queries.SLO_BUDGET_SPENT, legend(SLO)), threshold=1)


def stragglers(thresholds: Thresholds) -> Panel:
    """Return the job's stragglers: rank, phase and cause, one row per slot."""
    metadata = Metadata(
        "Stragglers",
        f"Rank per slot and its self time over that of its peers; {thresholds.slowdown_ratio} "
        "fires the alert. Empty means that no straggler was found; check coverage, too.",
        "none",
        24,
        NONE_KNOWN,
    )
    columns = {
        SLOT: "slot",
        "Value #A": "rank",
        PHASE: "phase",
        CAUSE: "cause",
        "Value #B": "times its peers",
    }
    table = rows(metadata, Line(queries.STRAGGLERS), Line(queries.SLOWDOWN), columns=columns)
    return table.links([runbook(thresholds, ALERT_STRAGGLER)])


def pace() -> Section:
    """Return the pace: step time, tokens, MFU, step."""
    quantiles = [Line(queries.step_quantile(q), f"p{q * 100:.0f}") for q in (0.5, 0.95, 0.99)]
    times = Metadata("Step time", "Step time of the slowest rank, quantiles over steps.", "s", 12)
    bands = Metadata("Step times", "Steps by duration; two bands are two kinds of step.", "s", 12)
    tokens = Metadata("Tokens per second", "Tokens trained on, over all ranks.", "short", 8)
    use = Metadata(
        "MFU",
        "FLOPs of the model a second over the peak of the devices; time in saves and evaluations "
        "counts. Empty where the trainer describes no model or no peak, or one that is wrong.",
        "percentunit",
        8,
    )
    step = Metadata(
        "Step", "Newest step that every rank completed; flat means no progress.", "none", 8
    )
    return Section(
        "Pace",
        [
            lines(times, *quantiles),
            heat(bands, Line(queries.STEP_HEAT, legend(queries.LE))),
            lines(tokens, Line(queries.TOKENS, "tokens/s")),
            lines(use, Line(queries.MFU, "MFU")),
            lines(step, Line(queries.STEP, "step"), floor=None),
        ],
    )


def numbers(thresholds: Thresholds) -> Section:
    """Return the training's numbers: loss, and incidents about numerics."""
    loss = Metadata(
        "Loss", "At the newest step that every rank completed; a gap may be NaN.", "short", 16
    )
    anomalies = Metadata(
        "Incidents about numerics",
        "Open incidents about loss, values that are not finite, and replicas that differ.",
    )
    panel = number(anomalies, Line(queries.NUMBER_INCIDENTS, legend(KIND)), ANY).height(8)
    alerts = (
        ALERT_NON_FINITE,
        ALERT_SILENT_CORRUPTION,
        ALERT_REPLICA_DRIFT,
        ALERT_LOSS_ANOMALY,
    )
    return Section(
        "Numbers",
        [
            lines(loss, Line(queries.LOSS, "loss"), floor=None),
            panel.links([runbook(thresholds, alert) for alert in alerts]),
        ],
    )


def where_time_goes() -> Section:
    """Return rank time shares: phases' self time, waits in collectives and in the pipeline."""
    metadata = Metadata(
        "Share of rank time",
        "Self time of each phase, collectives not hidden behind work, and waits for other stages; "
        "together they are all the time that was measured.",
        "percentunit",
        16,
    )
    waits = Metadata("Waiting", "The part of rank time spent in waits.", "percentunit")
    collective = Line(queries.COLLECTIVE_SHARE, "exposed collectives")
    pipeline = Line(queries.PIPELINE_SHARE, "pipeline wait")
    phases = Line(queries.PHASE_SHARE, legend(PHASE))
    return Section(
        "Where time goes",
        [
            lines(metadata, phases, collective, pipeline, stacked=True),
            lines(waits, collective, pipeline),
        ],
    )


def checkpoints() -> Section:
    """Return a restart's cost, and checkpoints by outcome."""
    ended = Metadata("Checkpoints by outcome", "Since the collector began to count.")
    verified = Metadata(
        "Newest verified step",
        "A restart now would resume here. No data: none is verified.",
        "none",
        empty="none verified",
    )
    risk = Metadata(
        "Steps at risk",
        "Steps since the newest verified checkpoint, lost at a restart. No data: none is verified.",
        "none",
        empty="all: none verified",
    )
    return Section(
        "Checkpoints",
        [
            number(verified, Line(queries.VERIFIED_STEP)),
            number(risk, Line(queries.STEPS_AT_RISK)),
            number(ended, Line(queries.CHECKPOINTS_ENDED, legend(OUTCOME))),
        ],
    )
