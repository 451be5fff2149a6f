"""The rows of the job dashboard, each answering one question of the on-call."""

from __future__ import annotations

from stepwatch.collector.slo.objectives import SloState
from stepwatch.signals.names import (
    ALERT_HANG,
    ALERT_LOSS_ANOMALY,
    ALERT_NON_FINITE,
    ALERT_SILENT_CORRUPTION,
    ALERT_STRAGGLER,
    ALERT_TELEMETRY_LOST,
    CAUSE,
    KIND,
    NODE,
    OUTCOME,
    PHASE,
    PROBE_UP,
    SLO,
    SLOT,
    STATE,
    VERDICT,
)

from . import queries
from .layout import Section
from .marks import Marks
from .panels import (
    BAD,
    GOOD,
    NEUTRAL,
    WARNING,
    About,
    Line,
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

_COLORS = {
    SloState.OK: GOOD,
    SloState.BURNING: WARNING,
    SloState.EXHAUSTED: BAD,
    SloState.FROZEN: NEUTRAL,
    SloState.UNKNOWN: NEUTRAL,
}

ANY: Steps = ((None, NEUTRAL), (1, BAD))
"""Zero is not praised, since a blind collector also counts zero; one is too many."""


def legend(*labels: str) -> str:
    """Legend that shows the values of labels."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def wrong(marks: Marks) -> Section:
    """What is wrong: incidents, progress, coverage, SLOs, stragglers."""
    return Section(
        "What is wrong",
        [*_signs_of_life(marks), _incidents(marks), _states(), _budgets(), _stragglers(marks)],
    )


def _signs_of_life(marks: Marks) -> list[Panel]:
    running = About("Expected to run", "1 while the job should make progress.", "short", 4)
    incidents = About(
        "Open incidents", "Trust a 0 only while coverage and record age are green.", "short", 5
    )
    stalled = About("Without progress", "Time since a rank last changed its step or phase.", "s", 5)
    age = About(
        "Age of newest record",
        "Grows when telemetry is lost; then nothing else here is true.",
        "s",
        5,
    )
    coverage = About("Telemetry coverage", "Observed over expected step records.", "percentunit", 5)
    return [
        number(running, Line(queries.RUNNING)),
        number(incidents, Line(queries.INCIDENT_COUNT), ANY),
        number(stalled, Line(queries.WITHOUT_PROGRESS), _below(marks.stalled_seconds)).links(
            [runbook(marks, ALERT_HANG)]
        ),
        number(age, Line(queries.RECORD_AGE), _below(marks.stale_seconds)).links(
            [runbook(marks, ALERT_TELEMETRY_LOST)]
        ),
        number(coverage, Line(queries.COVERAGE), _above(marks.coverage_ratio)).links(
            [runbook(marks, ALERT_TELEMETRY_LOST)]
        ),
    ]


def _below(mark: float) -> Steps:
    return ((None, GOOD), (mark, BAD))


def _above(mark: float) -> Steps:
    return ((None, BAD), (mark, GOOD))


def runbook(marks: Marks, alert: str) -> builders.DashboardLink:
    """Link to the runbook of an alert."""
    return link(f"Runbook {alert}", marks.runbooks[alert])


def _incidents(marks: Marks) -> Panel:
    about = About("Incidents by kind", "Open incidents; `stepwatch incidents` names the evidence.")
    columns = {KIND: "kind", "Value": "open"}
    table = rows(about, Line(queries.OPEN_INCIDENTS), columns=columns, height=8)
    return table.links([runbook(marks, alert) for alert in sorted(marks.runbooks)])


def _states() -> Panel:
    about = About("SLO state", "The state each SLO is in; frozen or unknown is not healthy.")
    columns = {SLO: "SLO", STATE: "state"}
    table = rows(about, Line(queries.SLO_STATES), columns=columns, height=8)
    return coloured(table, "state", {state.value: _COLORS[state] for state in SloState})


def _budgets() -> Panel:
    about = About(
        "Error budget spent",
        "Of the window's budget; beyond 100% the target is missed. No data while unknown.",
        "percentunit",
    )
    return lines(about, Line(queries.SLO_BUDGET_SPENT, legend(SLO)), mark=1)


def _stragglers(marks: Marks) -> Panel:
    about = About(
        "Stragglers",
        f"Rank per slot and its own time over its peers'; {marks.slowdown_ratio} fires the alert. "
        "Empty means that none was named: check coverage before you believe it.",
        "none",
        24,
    )
    columns = {
        SLOT: "slot",
        "Value #A": "rank",
        PHASE: "phase",
        CAUSE: "cause",
        "Value #B": "times its peers",
    }
    table = rows(about, Line(queries.STRAGGLERS), Line(queries.SLOWDOWN), columns=columns)
    return table.links([runbook(marks, ALERT_STRAGGLER)])


def pace() -> Section:
    """How fast it goes: step time, tokens, step."""
    quantiles = [Line(queries.step_quantile(q), f"p{q * 100:.0f}") for q in (0.5, 0.95, 0.99)]
    times = About("Step time", "Step time of the slowest rank, quantiles over steps.", "s", 12)
    bands = About("Step times", "Steps by duration; two bands are two kinds of step.", "s", 12)
    tokens = About("Tokens per second", "Tokens trained on, over all ranks.")
    step = About("Step", "Newest step that every rank completed; flat means no progress.", "none")
    return Section(
        "Pace",
        [
            lines(times, *quantiles),
            heat(bands, Line(queries.STEP_HEAT, legend(queries.LE))),
            lines(tokens, Line(queries.TOKENS, "tokens/s")),
            lines(step, Line(queries.STEP, "step"), floor=None),
        ],
    )


def numbers(marks: Marks) -> Section:
    """What the training computes: loss, and incidents about numbers."""
    loss = About(
        "Loss", "At the newest step that every rank completed; a gap may be NaN.", "short", 16
    )
    trouble = About(
        "Trouble with numbers",
        "Open incidents about loss, values that are not finite, and replicas that differ.",
    )
    told = number(trouble, Line(queries.NUMBER_INCIDENTS, legend(KIND)), ANY).height(8)
    alerts = (ALERT_NON_FINITE, ALERT_SILENT_CORRUPTION, ALERT_LOSS_ANOMALY)
    return Section(
        "Numbers",
        [
            lines(loss, Line(queries.LOSS, "loss"), floor=None),
            told.links([runbook(marks, alert) for alert in alerts]),
        ],
    )


def where_time_goes() -> Section:
    """Shares of rank time: the phases' own work, waiting for collectives, for the pipeline."""
    about = About(
        "Share of rank time",
        "Self time of each phase, collectives not hidden behind work, and waits for other stages; "
        "together they are all the time that was measured.",
        "percentunit",
        16,
    )
    waits = About("Waiting", "The part of rank time that waits for others.", "percentunit")
    collective = Line(queries.COLLECTIVE_SHARE, "exposed collectives")
    pipeline = Line(queries.PIPELINE_SHARE, "pipeline wait")
    phases = Line(queries.PHASE_SHARE, legend(PHASE))
    return Section(
        "Where time goes",
        [
            lines(about, phases, collective, pipeline, stacked=True),
            lines(waits, collective, pipeline),
        ],
    )


def checkpoints() -> Section:
    """What a restart would cost, and how checkpoints ended."""
    ended = About("Checkpoints by outcome", "Since the collector began to count.")
    verified = About(
        "Newest verified step",
        "A restart now would resume here. No data: none is verified.",
        "none",
    )
    risk = About(
        "Steps at risk",
        "Steps since the newest verified checkpoint, lost at a restart. No data: none is verified.",
        "none",
    )
    return Section(
        "Checkpoints",
        [
            number(verified, Line(queries.VERIFIED_STEP)),
            number(risk, Line(queries.STEPS_AT_RISK)),
            number(ended, Line(queries.CHECKPOINTS_ENDED, legend(OUTCOME))),
        ],
    )


def telemetry(marks: Marks) -> Section:
    """Can this page be believed: the road from the ranks to here, for all jobs."""
    return Section("Telemetry (all jobs)", [*_collector(marks), *_agents()])


def _collector(marks: Marks) -> list[Panel]:
    age = About("Record age over time", "Of this job; the dashed line fires the alert.", "s", 12)
    segments = About("Segments received", "By verdict; rejected ones are lost facts.", "cps", 12)
    seconds = About("Evaluation time", "Time the newest evaluation took.", "s")
    failures = About("Failed evaluations", "In the last minutes; no verdict comes from these.")
    capped = About("Jobs left out", "Jobs beyond the series cap: nothing here watches them.")
    return [
        lines(age, Line(queries.RECORD_AGE, "age"), mark=marks.stale_seconds),
        lines(segments, Line(queries.SEGMENTS, legend(VERDICT))),
        number(seconds, Line(queries.EVALUATION)),
        number(failures, Line(queries.EVALUATION_FAILURES), ANY),
        number(capped, Line(queries.JOBS_CAPPED), ANY),
    ]


def _agents() -> list[Panel]:
    spool = About("Agent spool", "Bytes waiting; growth means the collector is away.", "bytes")
    lost = About("Facts lost per second", "Overwritten in rings, or dropped from spools.", "cps")
    sends = About("Failed sends per second", "Sends that the collector did not take.", "cps")
    probes = About("Probes", "1: the probe's source can be read; 0: it cannot.", "short", 24)
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
