"""StepwatchCollectorDegraded: the collector runs, but parts fail or are late."""

from __future__ import annotations

from stepwatch.alerts.expressions import either
from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import (
    INGEST_SECONDS,
    LAG_SECONDS,
    RECENT_SECONDS,
    SILENCE_SECONDS,
    UNSENT_SECONDS,
)
from stepwatch.signals.names import (
    ALERT_COLLECTOR_DEGRADED,
    CAUSE,
    COLLECTOR_ASKED_FLUSH_SECONDS,
    COLLECTOR_EVALUATION_FAILURES,
    COLLECTOR_EVALUATION_SECONDS,
    COLLECTOR_INGEST_SECONDS,
    COLLECTOR_JOBS_CAPPED,
    COLLECTOR_JOBS_QUARANTINED,
    COLLECTOR_NOTICES_GIVEN_UP,
    COLLECTOR_NOTICES_OLDEST,
    COLLECTOR_OBJECTIVES_UNREADABLE,
    COLLECTOR_SILENCE_OLDEST,
    COLLECTOR_UNREADABLE,
    RECEIVER,
    Metric,
)

_GAUGES = (
    (COLLECTOR_JOBS_QUARANTINED, 0.0, "{{ . }} jobs are not evaluated."),
    (COLLECTOR_JOBS_CAPPED, 0.0, "{{ . }} jobs are left out of the metrics."),
    (COLLECTOR_OBJECTIVES_UNREADABLE, 0.0, "The newest SLO documents or site file are wrong."),
    (
        COLLECTOR_NOTICES_OLDEST,
        UNSENT_SECONDS,
        "A notice waits for {{ time }}: is its receiver up?",
    ),
    (COLLECTOR_SILENCE_OLDEST, SILENCE_SECONDS, "A silence has held pages for {{ time }}."),
    (COLLECTOR_INGEST_SECONDS, INGEST_SECONDS, "Storing an agent's request takes {{ . }} s."),
    (COLLECTOR_ASKED_FLUSH_SECONDS, 0.0, "The collector asks agents to send every {{ . }} s only."),
    (COLLECTOR_EVALUATION_SECONDS, LAG_SECONDS, "A job waits {{ . }} s for its evaluation."),
)
"""Metric, its limit, and the sentence about a value above the limit."""
_COUNTERS = (
    (COLLECTOR_EVALUATION_FAILURES, "{{ . }} evaluations ended in an error."),
    (COLLECTOR_UNREADABLE, "{{ . }} stored segments could not be decoded."),
)


def _above(metric: Metric, limit: float) -> str:
    return f"max({metric.name}) > {limit:g}"


def _rising(metric: Metric) -> str:
    return f"max(increase({metric.name}[{RECENT_SECONDS}s])) > 0"


def _sentence(query: str, text: str) -> str:
    """Return a template for a sentence with the query's rounded value, if there is one."""
    shown = text.replace("{{ . }}", "{{ . | first | value | humanize }}")
    shown = shown.replace("{{ time }}", "{{ . | first | value | humanizeDuration }}")
    # Both branches end with a space or are empty, so that sentences can be concatenated.
    return f"{{{{ with printf `{query}` | query }}}}{shown} {{{{ end }}}}"


def _waits(receiver: str) -> str:
    return f'{COLLECTOR_NOTICES_OLDEST.name}{{{RECEIVER}="{receiver}"}}'


def _given_up(cause: str) -> str:
    return f'{COLLECTOR_NOTICES_GIVEN_UP.name}{{{CAUSE}="{cause}"}}'


_WHAT = "A part of the collector fails or is late"
_TEXT = "Jobs may be without detection although their telemetry arrives."
_LOST = f'{COLLECTOR_NOTICES_GIVEN_UP.name}{{{CAUSE}=~"refused|unanswered|unsent"}}'
"""Notices that were due but not sent: not silenced, not acknowledged, and still relevant."""
_CONDITIONS = (
    (f"max({_LOST}) > 0", "{{ . }} notices of incidents did not arrive."),
    *((_above(metric, limit), text) for metric, limit, text in _GAUGES),
    *((_rising(metric), text) for metric, text in _COUNTERS),
)


def _fired(sentence: str) -> tuple[Fired, ...]:
    return (Fired({}, _WHAT, f"{sentence} {_TEXT}"),)


ALERT = Alert(
    name=ALERT_COLLECTOR_DEGRADED,
    expr=either(*(condition for condition, _ in _CONDITIONS)),
    severity=Severity.TICKET,
    # A restarted collector evaluates its backlog first, which may take a minute.
    for_seconds=120,
    keep_firing_seconds=300,
    summary=_WHAT,
    description="".join(_sentence(*condition) for condition in _CONDITIONS) + _TEXT,
    impact="Some jobs' verdicts, metrics or notices are late or missing. Training continues.",
    first_action="Read the description, then the log of the collector in `stepwatch status`.",
    cases=(
        Case(
            "a job is quarantined",
            {COLLECTOR_JOBS_QUARANTINED.name: "0x8 2x40"},
            420,
            _fired("2 jobs are not evaluated."),
        ),
        Case(
            "evaluations are slow",
            {COLLECTOR_EVALUATION_SECONDS.name: "1x8 20x40"},
            420,
            _fired("A job waits 20 s for its evaluation."),
        ),
        Case(
            "a receiver is down",
            {_waits("oncall"): "0x8 300+15x40"},
            420,
            _fired("A notice waits for 9m 45s: is its receiver up?"),
        ),
        Case(
            "a silence was forgotten",
            {COLLECTOR_SILENCE_OLDEST.name: "605000+15x40"},
            420,
            _fired("A silence has held pages for 7d 0h 10m 20s."),
        ),
        Case(
            "agents' requests are stored slowly",
            {COLLECTOR_INGEST_SECONDS.name: "0.1x8 8x40"},
            420,
            _fired("Storing an agent's request takes 8 s."),
        ),
        Case(
            "it flaps",
            {COLLECTOR_JOBS_CAPPED.name: "0x2 3x20 0 3 0 3x20"},
            450,
            _fired("3 jobs are left out of the metrics."),
            situation=Situation.FLAPPING,
        ),
        Case(
            "a late scrape",
            {COLLECTOR_JOBS_CAPPED.name: "3x12 _x4 3x20"},
            225,
            _fired("3 jobs are left out of the metrics."),
            situation=Situation.LATE,
        ),
        Case(
            "no alert while an evaluation is slow once",
            {COLLECTOR_EVALUATION_SECONDS.name: "1x8 20x3 1x40"},
            420,
        ),
        Case(
            "no alert as a restarted collector counts from zero",
            {COLLECTOR_EVALUATION_FAILURES.name: "5x20 stale _x4 0x40"},
            900,
            situation=Situation.RESTART,
        ),
        Case(
            "a receiver refuses",
            {_given_up("refused"): "0x8 2x40"},
            420,
            _fired("2 notices of incidents did not arrive."),
        ),
        Case("no alert for notices that a silence holds", {_given_up("silenced"): "9x40"}, 420),
        Case("no alert while a page is late by a minute", {_waits("oncall"): "0+15x4 0x40"}, 300),
        Case(
            "no alert while nothing is known",
            {COLLECTOR_JOBS_CAPPED.name: "_x40"},
            420,
            situation=Situation.MISSING,
        ),
    ),
    of_jobs=False,
)
