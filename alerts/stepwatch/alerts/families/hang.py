"""TrainingHang: a job makes no progress."""

from __future__ import annotations

from stepwatch.alerts.expressions import BY_JOB, above, and_on_job, either, incident, while_running
from stepwatch.alerts.memory import classes_of_left
from stepwatch.alerts.spec import Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import NOT_RESTARTED_SECONDS, STALLED_SECONDS
from stepwatch.signals.names import (
    ALERT_HANG,
    INCIDENT_OPEN,
    JOB,
    JOB_INFO,
    JOB_RUNNING,
    KIND,
    NODE,
    NODE_RANK_STEP_MIN,
    NODE_RANKS,
    SECONDS_WITHOUT_PROGRESS,
    FindingKind,
)

LOST = (FindingKind.RANK_FAILED, FindingKind.MEMORY_GROWTH)
"""Causes with a hang as a symptom that are tickets: one restart fixes them."""


def _series(
    open_incidents: str,
    stalled: str,
    running: str = "1x90",
    kind: FindingKind = FindingKind.HANG,
) -> dict[str, str]:
    return {
        f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="{kind.value}"}}': open_incidents,
        f'{SECONDS_WITHOUT_PROGRESS.name}{{{JOB}="llama"}}': stalled,
        f'{JOB_RUNNING.name}{{{JOB}="llama"}}': running,
    }


def _fired(stalled: str) -> Fired:
    return Fired(
        {JOB: "llama"},
        "Job llama hangs: it makes no progress",
        f"No rank changed its step or phase for {stalled}.",
    )


_KEEP_SECONDS = 120
_UNCHANGED_SECONDS = 300
"""Longer than the alert outlives its condition: one step ends it, and it cannot sustain itself."""
# From agents' metrics: ranks whose step has not changed since the collector was lost.
_FIRES = f'max {BY_JOB} (ALERTS{{alertname="{ALERT_HANG}",alertstate="firing"}}) > 0'
_CLASSES = classes_of_left("left_hanging")
_STILL_HANGS = f"{_FIRES}\nunless on ({JOB})\n{JOB_RUNNING.name}"
_NO_STEP = f"max {BY_JOB} (changes({NODE_RANK_STEP_MIN.name}[{_UNCHANGED_SECONDS}s])) == 0"
_HAS_RANKS = f"{NODE_RANKS.name} > 0"

_DEAD_SECONDS = 180


def _without_collector(steps: str, open_incidents: str = "0x3 1x7 stale") -> dict[str, str]:
    """Return a hang, the collector's death at `_DEAD_SECONDS`, and the agents' lasting series."""
    node = f'{{{JOB}="llama",{NODE}="n0"}}'
    ranks = steps if "stale" in steps else "8x120"
    return _series(open_incidents, "0 0 0 0 15+15x7 stale", "1x11 stale") | {
        f"{NODE_RANK_STEP_MIN.name}{node}": steps,
        f"{NODE_RANKS.name}{node}": ranks,
    }


_FIRED_UNSEEN = Fired(
    {JOB: "llama"}, "Job llama hangs: it makes no progress", "The duration is unknown."
)

ALERT = Alert(
    name=ALERT_HANG,
    recordings=(_CLASSES,),
    # Without its class, the alert on a job that left the metrics would be another page.
    classes=(JOB_INFO.name, _CLASSES.name),
    expr=either(
        while_running(
            either(
                incident(FindingKind.HANG),
                above(SECONDS_WITHOUT_PROGRESS, STALLED_SECONDS),
                and_on_job(incident(*LOST), above(SECONDS_WITHOUT_PROGRESS, NOT_RESTARTED_SECONDS)),
            )
        ),
        and_on_job(and_on_job(_STILL_HANGS, _NO_STEP), _HAS_RANKS),
    ),
    severity=Severity.PAGE,
    # The detector has already waited; waiting again costs the whole cluster.
    for_seconds=0,
    keep_firing_seconds=_KEEP_SECONDS,
    summary=f"Job {{{{ $labels.{JOB} }}}} hangs: it makes no progress",
    description=(
        f"{{{{ with printf `max({SECONDS_WITHOUT_PROGRESS.name}{{{JOB}=%q}})` $labels.{JOB} "
        "| query }}"
        "No rank changed its step or phase for {{ . | first | value | humanizeDuration }}."
        "{{ else }}The duration is unknown.{{ end }}"
    ),
    impact="Every device of the job is paid for and idle. At the collective timeout it crashes.",
    first_action=(
        "Run `stepwatch incidents`: it names the rank that did not arrive. Read it before the "
        "job restarts: the evidence dies with the process."
    ),
    cases=(
        Case(
            name="the detector opened an incident",
            series=_series("0x3 1x76", "0 0 0 0 15+15x75"),
            at_seconds=120,
            fired=(_fired("1m 15s"),),
        ),
        Case(
            name="the back-stop, where the detector found nothing",
            series=_series("0x90", "0+15x90"),
            at_seconds=960,
            fired=(_fired("16m 0s"),),
        ),
        Case(
            name="a rank is lost, and nothing restarts the job",
            series=_series("0x3 1x86", "0 0 0 0+15x86", kind=FindingKind.RANK_FAILED),
            at_seconds=210,
            fired=(_fired("2m 45s"),),
        ),
        Case(
            name="the alert stays while the incident closes and reopens",
            series=_series("0x3 1x5 0x4 1x80", "20x90"),
            at_seconds=240,
            fired=(_fired("20s"),),
            situation=Situation.FLAPPING,
        ),
        Case(
            name="its newest samples are late",
            series=_series("0x3 1x12 _x2 1x80", "20x15 _x2 20x80"),
            at_seconds=270,
            fired=(_fired("20s"),),
            situation=Situation.LATE,
        ),
        Case(
            name="the collector dies: ranks that stay where they were still hang",
            series=_without_collector("7x120"),
            at_seconds=_DEAD_SECONDS + 600,
            fired=(_FIRED_UNSEEN,),
        ),
        Case(
            name="no alert after the collector died and the ranks continued",
            series=_without_collector("7x20 8+1x100"),
            at_seconds=_DEAD_SECONDS + 600,
        ),
        Case(
            name="no alert after the collector died and the ranks made one step",
            series=_without_collector("7x20 8x100"),
            at_seconds=_DEAD_SECONDS + 1200,
        ),
        Case(
            name="no alert after the collector died and the ranks ended",
            series=_without_collector("7x20 stale"),
            at_seconds=_DEAD_SECONDS + 600,
        ),
        Case(
            name="no alert on a job that did not hang when the collector died",
            series=_without_collector("7x120", "0x11 stale"),
            at_seconds=_DEAD_SECONDS + 600,
        ),
        Case(
            name="no alert where a lost rank is restarted within a minute",
            series=_series("0x3 1x5 0x80", "0 0 0 0+15x5 0x80", kind=FindingKind.RANK_FAILED),
            at_seconds=210,
        ),
        Case(
            name="no alert while a rank of a job that moves runs out of memory",
            series=_series("1x90", "0x90", kind=FindingKind.MEMORY_GROWTH),
            at_seconds=600,
        ),
        Case(
            name="no alert after the job ended",
            series=_series("0x90", "0+15x90", running="0x90"),
            at_seconds=1200,
        ),
        Case(
            name="no alert while a checkpoint takes ten minutes",
            series=_series("0x90", "0+15x40 0x50"),
            at_seconds=600,
        ),
    ),
)
