"""TrainingNonFinite: NaN or infinity, from the collector's incident and the agents' counts."""

from __future__ import annotations

from dataclasses import replace

from stepwatch.alerts.expressions import BY_JOB, and_on_job, either, while_evaluated
from stepwatch.alerts.memory import classes_of_left, last_seen, recorded_name
from stepwatch.alerts.spec import (
    INTERVAL_SECONDS,
    UNPAGED,
    Case,
    Fired,
    Recording,
    Severity,
    Situation,
)
from stepwatch.alerts.thresholds import NON_FINITE_SECONDS, VANISHED_SECONDS
from stepwatch.alerts.verdict import AlertText, alert
from stepwatch.signals.names import (
    INCIDENT_OPEN,
    JOB,
    JOB_INFO,
    JOB_RUNNING,
    KIND,
    NODE,
    NODE_RANK_NON_FINITE,
    FindingKind,
)

_COUNT = NODE_RANK_NON_FINITE.name
_BY_NODE = f"by ({JOB}, {NODE})"
_ON_NODE = f"on ({JOB}, {NODE})"
_NODE = (JOB, NODE)
# Such values are rare, so only counts above zero are remembered.
_NOW = f"max {_BY_NODE} ({_COUNT} > 0)"
_LAST_SEEN = last_seen(
    _NOW,
    VANISHED_SECONDS,
    recorded_name(_NODE, NODE_RANK_NON_FINITE, "last_timestamp_seconds"),
)
_LAST_COUNT = recorded_name(_NODE, NODE_RANK_NON_FINITE, "last")
# A restarted agent counts from zero; an absent one may return with the same count.
_REMEMBERED = f"{_LAST_COUNT}\nand {_ON_NODE}\n{_LAST_SEEN.name}\nunless {_ON_NODE}\n{_COUNT}"
_LAST = Recording(_LAST_COUNT, either(_NOW, _REMEMBERED))
_BEFORE = f"{_LAST_COUNT} offset {INTERVAL_SECONDS}s"
_RISES = f"{_LAST_COUNT} > {_ON_NODE} ({_BEFORE} or 0 * {_LAST_COUNT})"
# In its first minute Prometheus would treat every count as a new rise.
_LOOKING_SECONDS = 60
_RISEN = last_seen(
    while_evaluated(_RISES, _LOOKING_SECONDS),
    NON_FINITE_SECONDS,
    recorded_name(_NODE, NODE_RANK_NON_FINITE, "risen_timestamp_seconds"),
)
# Agents count while the job's ranks are present, and need no collector.
_BACK_STOP = and_on_job(f"max {BY_JOB} ({_RISEN.name})", _COUNT)
_CLASSES = classes_of_left("left_not_finite")

# Every further step is wasted, and a new checkpoint holds the damage.
_TEXT = AlertText(
    FindingKind.NON_FINITE,
    Severity.PAGE,
    "its numbers are no longer finite",
    "A rank holds NaN or Inf in its loss or gradients.",
    "Without a guard in the trainer the parameters are lost from this step on, and each new "
    "checkpoint holds the damage.",
    "Run `stepwatch incidents`: it names the first rank and step. Protect the newest "
    "checkpoint before that step from deletion.",
)
_JOB = f'{{{JOB}="llama"}}'
_FIRED = (Fired({JOB: "llama"}, f"Job llama: {_TEXT.headline}", _TEXT.description),)


def _counts(values: str, node: str = "gpu-07") -> dict[str, str]:
    return {f'{_COUNT}{{{NODE}="{node}",{JOB}="llama"}}': values}


def _collector(open_incidents: str, running: str) -> dict[str, str]:
    kind = FindingKind.NON_FINITE.value
    return {
        f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="{kind}"}}': open_incidents,
        f"{JOB_RUNNING.name}{_JOB}": running,
    }


_CASES = (
    Case("the back-stop, without a collector", _counts("0x8 3x60"), 180, _FIRED),
    Case(
        "the back-stop, where the collector finds nothing",
        _counts("0x8 3x60") | _collector("0x80", "1x80"),
        180,
        _FIRED,
    ),
    Case(
        "the collector is gone for long, and a class that does not page is remembered",
        _counts("0x160 3x60") | {f"{JOB_INFO.name}{_JOB}": "1x8 stale"},
        2460,
        _FIRED,
        job_class=UNPAGED,
    ),
    Case("the first sample of a job is above zero", _counts("_x8 3x60"), 690, _FIRED),
    Case(
        "a new attempt comes above zero after a pause",
        _counts("0x8 stale _x70 3x40"),
        1260,
        _FIRED,
    ),
    Case(
        "one node of two, and the other's agent is silent",
        _counts("0x8 3x60") | _counts("0x8 stale", "gpu-08"),
        180,
        _FIRED,
    ),
    Case(
        "one alert, where incident and count agree",
        _counts("0x8 3x60") | _counts("0x8 9x60", "gpu-08") | _collector("0x8 1x60", "1x80"),
        180,
        _FIRED,
    ),
    Case(
        "a rank holds such values after its agent restarted",
        _counts("0x8 5x90 stale _x3 0x2 3x40"),
        1620,
        _FIRED,
        situation=Situation.RESTART,
    ),
    Case(
        "the agent's newest samples are late",
        _counts("0x8 3 _x4 3x60"),
        195,
        _FIRED,
        situation=Situation.LATE,
    ),
    Case(
        "no alert as a restarted agent counts from zero",
        _counts("0x8 5x90 stale _x3 0x40"),
        1620,
        situation=Situation.RESTART,
    ),
    Case(
        "no alert as the same count is seen again after half an hour",
        _counts("0x8 5x80 _x120 5x60"),
        3240,
        situation=Situation.LATE,
    ),
    Case("no alert after the ranks ended", _counts("0x8 3x4 stale"), 600),
    Case(
        "no alert on the next attempt, whose values are finite",
        _counts("0x8 3x4 stale _x3 3x80"),
        1200,
        situation=Situation.RESTART,
    ),
    Case("no alert while nothing is counted", _counts("0x80") | _collector("0x80", "1x80"), 900),
    Case("no alert on an old value", _counts("0x8 3x100"), 1200),
    Case("no alert on the first value that a restarted Prometheus finds", _counts("_x2 3x80"), 300),
    Case("it rises after Prometheus was started", _counts("_x2 3x8 4x80"), 300, _FIRED),
)

_VERDICT = alert(_TEXT)
ALERT = replace(
    _VERDICT,
    expr=either(_VERDICT.expr, _BACK_STOP),
    recordings=(_CLASSES, _LAST_SEEN, _LAST, _RISEN),
    # A lost collector exports no class: a job that did not page before must not page now.
    classes=(JOB_INFO.name, _CLASSES.name),
    cases=(*_VERDICT.cases, *_CASES),
)
