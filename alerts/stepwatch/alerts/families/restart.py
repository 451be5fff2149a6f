"""Alerts on attempts: a failed job that was not restarted, and a job that restarts repeatedly."""

from __future__ import annotations

from stepwatch.alerts.expressions import (
    BY_JOB,
    RUNNING,
    above,
    and_on_job,
    incident,
    open_incidents,
)
from stepwatch.alerts.links import JOB_TEMPLATE
from stepwatch.alerts.memory import LAST_ATTEMPTS, last_seen, recorded_name
from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import FAILED_SECONDS, LOOPING_ATTEMPTS, LOOPING_SECONDS
from stepwatch.signals.names import (
    ALERT_CRASH_LOOP,
    ALERT_NOT_RESTARTED,
    ATTEMPT,
    INCIDENT_OPEN,
    JOB,
    JOB_INFO,
    JOB_RUNNING,
    KIND,
    SECONDS_SINCE_FAILURE,
    FindingKind,
)


def _series(failed: str, running: str) -> dict[str, str]:
    return {
        f'{SECONDS_SINCE_FAILURE.name}{{{JOB}="llama"}}': failed,
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


_WHAT = "failed, and no new attempt began"
_DESCRIPTION = "All ranks of the newest attempt ended, at least one of them in a failure."

NOT_RESTARTED = Alert(
    name=ALERT_NOT_RESTARTED,
    # A running attempt in any collector counts as a restart.
    expr=(f"({above(SECONDS_SINCE_FAILURE, FAILED_SECONDS)})\nunless on ({JOB})\n({RUNNING})"),
    severity=Severity.PAGE,
    # The metric itself counts the seconds.
    for_seconds=0,
    keep_firing_seconds=120,
    summary=f"Job {JOB_TEMPLATE} {_WHAT}",
    description=_DESCRIPTION,
    impact=(
        "Training has stopped. The devices are idle or released. The job does not continue by "
        "itself."
    ),
    first_action=(
        "Run `stepwatch incidents`: it names the rank that failed first, and the reason. Fix a "
        "failure that repeats at each start before the next submission."
    ),
    cases=(
        Case(
            name="a failed job is not restarted",
            series=_series("_x10 0+15x80", "1x10 0x80"),
            at_seconds=600,
            fired=(Fired({JOB: "llama"}, f"Job llama {_WHAT}", _DESCRIPTION),),
        ),
        Case(
            name="the alert stays while a collector loses sight of the job",
            series=_series("_x10 0+15x30 _x3 495+15x40", "1x10 0x90"),
            at_seconds=660,
            fired=(Fired({JOB: "llama"}, f"Job llama {_WHAT}", _DESCRIPTION),),
            situation=Situation.FLAPPING,
        ),
        Case(
            name="no alert while its launcher has time to restart it",
            series=_series("_x10 0+15x80", "1x10 0x80"),
            at_seconds=450,
        ),
        Case(
            name="it resolves when a new attempt begins",
            series=_series("_x10 0+15x30 stale", "1x10 0x30 1x40"),
            at_seconds=780,
        ),
        Case(
            name="no alert where another collector sees a new attempt",
            series={
                **_series("0+15x80", "0x80"),
                f'{JOB_RUNNING.name}{{{JOB}="llama",instance="other"}}': "1x80",
            },
            at_seconds=900,
        ),
        Case(
            name="no alert after a job that finished, or was preempted and ended cleanly",
            series={f'{JOB_RUNNING.name}{{{JOB}="llama"}}': "1x10 0x80"},
            at_seconds=900,
        ),
    ),
)


def _attempts(*values: str, running: str = "1x200") -> dict[str, str]:
    """Return series for attempts from 0 upwards, with each attempt's values."""
    return {
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
        **{
            f'{JOB_INFO.name}{{{JOB}="llama",{ATTEMPT}="{number}"}}': value
            for number, value in enumerate(values)
        },
    }


_ENDS_IN = (FindingKind.RANK_FAILED, FindingKind.HANG, FindingKind.DESYNC, FindingKind.NON_FINITE)
"""Failures that cause a restart."""


def _failures(values: str) -> dict[str, str]:
    return {f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="rank-failed"}}': values}


_LOOPS = "is restarted again and again"
_LOOP_TEXT = f"At least {LOOPING_ATTEMPTS} attempts within {LOOPING_SECONDS // 60} minutes."
_LOOPED = (Fired({JOB: "llama"}, f"Job llama {_LOOPS}", _LOOP_TEXT),)
_FOUR = ("1x20 stale", "_x22 1x20 stale", "_x44 1x20 stale", "_x66 1x134")
_THREE = ("1x20 stale", "_x22 1x20 stale", "_x44 1x156")

_ATTEMPTS = f"count {BY_JOB} ({LAST_ATTEMPTS.name})"
_LAST_FAILED = last_seen(
    incident(*_ENDS_IN),
    LOOPING_SECONDS,
    recorded_name((JOB,), INCIDENT_OPEN, "last_failure_timestamp_seconds"),
)
# All kinds are exported together, so one shows whether they are known. First attempts do not
# matter.
_LAST_WATCHED = last_seen(
    and_on_job(f"max {BY_JOB} ({open_incidents(FindingKind.RANK_FAILED)})", f"{_ATTEMPTS} > 1"),
    LOOPING_SECONDS,
    recorded_name((JOB,), INCIDENT_OPEN, "last_known_timestamp_seconds"),
)

CRASH_LOOP = Alert(
    name=ALERT_CRASH_LOOP,
    recordings=(_LAST_FAILED, _LAST_WATCHED),
    expr=(
        f"{_ATTEMPTS} >= {LOOPING_ATTEMPTS}\n"
        # Repeated preemption is not a crash loop: nothing failed.
        f"unless on ({JOB})\n"
        f"({_LAST_WATCHED.name} unless on ({JOB}) {_LAST_FAILED.name})"
    ),
    severity=Severity.PAGE,
    for_seconds=0,
    keep_firing_seconds=300,
    summary=f"Job {JOB_TEMPLATE} {_LOOPS}",
    description=_LOOP_TEXT,
    impact="Devices are paid for, but only load, restore and fail: training makes little progress.",
    first_action=(
        "Run `stepwatch incidents`: if each attempt fails at the same rank or step, stop the job: "
        "the next restart ends the same way."
    ),
    cases=(
        Case("the fourth attempt begins", _attempts(*_FOUR), 1080, _LOOPED),
        Case(
            "it is between attempts",
            _attempts(*_FOUR, running="0x200"),
            1080,
            _LOOPED,
            situation=Situation.FLAPPING,
        ),
        Case(
            "a late scrape and a restart of the collector",
            _attempts(*_FOUR[:3], "_x66 1x4 _x2 1x4 stale _x3 1x100"),
            1200,
            _LOOPED,
            situation=Situation.RESTART,
        ),
        Case(
            "one of four attempts is known to have failed",
            _attempts(*_FOUR) | _failures("0x20 1x4 0x176"),
            1080,
            _LOOPED,
        ),
        Case("no alert where four were preempted", _attempts(*_FOUR) | _failures("0x200"), 1080),
        Case(
            "no alert where four were preempted, and the job has just left the metrics",
            _attempts(*_FOUR[:3], "_x66 1x2 stale", running="1x69 stale") | _failures("0x69 stale"),
            1080,
        ),
        Case("no alert after two restarts", _attempts(*_THREE), 1500),
        Case(
            "it resolves when the last attempt continues",
            _attempts(*_FOUR),
            2700,
        ),
        Case("no alert where attempts are unknown", _attempts(), 1080),
    ),
)
ALERTS = (NOT_RESTARTED, CRASH_LOOP)
