"""TrainingNonFinite: NaN or infinity, as the collector's incident and as the agents' counts."""

from __future__ import annotations

from dataclasses import replace

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

from .expressions import BY_JOB, both, either, worst
from .memory import classes
from .spec import UNPAGED, Case, Fired, Severity, Situation
from .thresholds import NON_FINITE_SECONDS, VANISHED_SECONDS
from .verdict import AlertText, alert

_COUNT = NODE_RANK_NON_FINITE.name
_SPAN = f"{NON_FINITE_SECONDS}s"
_REMEMBERED = f"last_over_time({_COUNT}[{VANISHED_SECONDS}s] offset {_SPAN})"
# `increase` sees what follows a restart of the agent, but not that a series begins above zero or
# comes back higher; comparing with the count of before sees that.
_RISEN = either(
    f"max {BY_JOB} (increase({_COUNT}[{_SPAN}])) > 0",
    f"max {BY_JOB} ({_COUNT} > ({_REMEMBERED} or 0 * {_COUNT}))",
)
# The agents count while ranks of the job are there: what they say needs no collector.
_BACK_STOP = both(_RISEN, worst(NODE_RANK_NON_FINITE))
_CLASSES = classes("last_of_ranks", of=worst(NODE_RANK_NON_FINITE))

# Every further step is wasted, and a checkpoint taken now holds the damage.
_TEXT = AlertText(
    FindingKind.NON_FINITE,
    Severity.PAGE,
    "its numbers are no longer finite",
    "A rank holds NaN or Inf in its loss or gradients.",
    "Without a guard in the trainer the parameters are lost from this step on, and each "
    "checkpoint written now keeps the damage.",
    "Run `stepwatch incidents`: it names the first rank and step. Keep the newest checkpoint "
    "from before that step from being deleted.",
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
    Case("no alert on what was long ago", _counts("0x8 3x100"), 1200),
)

_VERDICT = alert(_TEXT)
ALERT = replace(
    _VERDICT,
    expr=either(_VERDICT.expr, _BACK_STOP),
    recordings=(_CLASSES,),
    # A collector that is gone says no class: a job that did not page before does not do so now.
    classes=_CLASSES.name,
    cases=(*_VERDICT.cases, *_CASES),
)
