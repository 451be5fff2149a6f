"""TrainingTelemetryLost: telemetry is missing; a missing value is unknown, never healthy."""

from __future__ import annotations

from stepwatch.alerts.expressions import (
    BY_JOB,
    either,
    incident,
    lasting,
    while_evaluated,
    while_running,
    worst,
)
from stepwatch.alerts.memory import LEFT_WHILE_RUNNING, classes_of_left, holding, recorded_name
from stepwatch.alerts.spec import UNPAGED, Alert, Case, Fired, Severity, Situation
from stepwatch.alerts.thresholds import COVERAGE_RATIO, STALE_SECONDS
from stepwatch.signals.names import (
    ALERT_TELEMETRY_LOST,
    COLLECTOR_JOBS,
    INCIDENT_OPEN,
    JOB,
    JOB_INFO,
    JOB_RUNNING,
    KIND,
    LAST_RECORD,
    TELEMETRY_COVERAGE,
    FindingKind,
)

_STALE = f"time() - {worst(LAST_RECORD)} > {STALE_SECONDS:g}"
# Lost ranks send no records, and the reason is known.
_LOW_COVERAGE = (
    f"min {BY_JOB} ({TELEMETRY_COVERAGE.name}) < {COVERAGE_RATIO}\n"
    f"unless on ({JOB})\n({incident(FindingKind.HANG, FindingKind.RANK_FAILED)})"
)
# At the usual 15 s: one lost scrape makes `absent` true.
_TWO_SCRAPES_SECONDS = 30
# Without a collector no job can be named: one alert without a job label, not one per job.
_NO_COLLECTOR = f"absent({COLLECTOR_JOBS.name})"
_CLASSES = classes_of_left("left")
_GONE = f"{LEFT_WHILE_RUNNING.name}\nunless on ()\n{_NO_COLLECTOR}"
_MISSING = holding(
    either(while_running(either(_STALE, _LOW_COVERAGE)), _GONE),
    recorded_name((JOB,), LAST_RECORD, "missing"),
)


def _series(newest: str, coverage: str, running: str, jobs: str = "1x40") -> dict[str, str]:
    job = f'{{{JOB}="llama"}}'
    return {
        f"{LAST_RECORD.name}{job}": newest,
        f"{TELEMETRY_COVERAGE.name}{job}": coverage,
        f"{JOB_RUNNING.name}{job}": running,
        COLLECTOR_JOBS.name: jobs,
    }


_WHICH = f"{{{{ with $labels.{JOB} }}}}Job {{{{ . }}}}{{{{ else }}}}Every job{{{{ end }}}}"
_DESCRIPTION = "Every view of it is out of date: its state is unknown."
_JOB_LOST = Fired({JOB: "llama"}, "Job llama: telemetry is missing", _DESCRIPTION)

ALERT = Alert(
    name=ALERT_TELEMETRY_LOST,
    recordings=(_CLASSES, _MISSING),
    # A missing job's class is remembered while the job is missed.
    classes=(JOB_INFO.name, _CLASSES.name),
    # The collector has waited before it opened an incident; waiting again has no benefit.
    expr=either(
        while_running(incident(FindingKind.TELEMETRY_LOST)),
        lasting(_MISSING.name, _TWO_SCRAPES_SECONDS),
        while_evaluated(lasting(_NO_COLLECTOR, _TWO_SCRAPES_SECONDS), 2 * _TWO_SCRAPES_SECONDS),
    ),
    severity=Severity.PAGE,
    for_seconds=0,
    keep_firing_seconds=120,
    summary=f"{_WHICH}: telemetry is missing",
    description=_DESCRIPTION,
    impact="Nothing would detect a hang or a straggler. Training itself is not affected.",
    first_action=(
        "Run `stepwatch status`: no answer points to the collector, a stale job to an agent."
    ),
    cases=(
        Case(
            name="an incident is open: at once",
            series=_series("0+15x40", "1x40", "1x40")
            | {f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="telemetry-lost"}}': "0x8 1x31"},
            at_seconds=165,
            fired=(_JOB_LOST,),
        ),
        Case(
            name="records stop",
            series=_series("0+15x8 120x32", "1x40", "1x40"),
            at_seconds=300,
            fired=(_JOB_LOST,),
        ),
        Case(
            name="every fifth record is missing",
            series=_series("0+15x40", "0.8x40", "1x40"),
            at_seconds=300,
            fired=(_JOB_LOST,),
        ),
        Case(
            name="no alert where records of a node that is lost are missing",
            series=_series("0+15x40", "0.8x40", "1x40")
            | {f'{INCIDENT_OPEN.name}{{{JOB}="llama",{KIND}="hang"}}': "1x40"},
            at_seconds=300,
        ),
        Case(
            name="no alert on a job that ended under another collector, and left the metrics",
            series={
                f'{JOB_RUNNING.name}{{{JOB}="llama",instance="a"}}': "1x8 stale",
                f'{JOB_RUNNING.name}{{{JOB}="llama",instance="b"}}': "_x10 0x8 stale",
                COLLECTOR_JOBS.name: "1x40",
            },
            at_seconds=420,
        ),
        Case(
            name="a running job leaves the metrics",
            series=_series("0+15x8 stale", "1x8 stale", "1x8 stale"),
            at_seconds=300,
            fired=(_JOB_LOST,),
        ),
        Case(
            name="a running job leaves the metrics, and with it its class, which does not page",
            series=_series("0+15x8 stale", "1x8 stale", "1x8 stale")
            | {JOB_INFO.name + f'{{{JOB}="llama"}}': "1x8 stale"},
            at_seconds=300,
            fired=(_JOB_LOST,),
            job_class=UNPAGED,
        ),
        Case(
            name="it is missed for most of an hour",
            series=_series("0+15x8 stale", "1x8 stale", "1x8 stale", "1x300"),
            at_seconds=3600,
            fired=(_JOB_LOST,),
        ),
        Case(
            name="no alert on a job that is gone for more than an hour",
            series=_series("0+15x8 stale", "1x8 stale", "1x8 stale", "1x300"),
            at_seconds=3900,
        ),
        Case(
            name="no alert after a job that was missed came back, and ended",
            series=_series(
                "0+15x8 stale", "1x8 stale _x8 1x12 stale", "1x8 stale _x8 1x8 0x3 stale"
            ),
            at_seconds=570,
        ),
        Case(
            name="no alert on a job that one of two collectors still exports",
            series={
                f'{JOB_RUNNING.name}{{{JOB}="llama",instance="a"}}': "1x8 stale",
                f'{JOB_RUNNING.name}{{{JOB}="llama",instance="b"}}': "1x40",
                COLLECTOR_JOBS.name: "1x40",
            },
            at_seconds=420,
        ),
        Case(
            name="the collector is gone: one alert, not one for each job",
            series=_series("0+15x8 stale", "1x8 stale", "1x8 stale", "1x8 stale"),
            at_seconds=300,
            fired=(Fired({}, "Every job: telemetry is missing", _DESCRIPTION),),
            situation=Situation.MISSING,
        ),
        Case(
            name="no alert before a Prometheus that was just started has looked twice",
            series=_series("_x400", "_x400", "_x400", "_x400"),
            at_seconds=45,
        ),
        Case(
            name="records come for a moment",
            series=_series("0+15x8 120x8 255 255x40", "1x60", "1x60", "1x60"),
            at_seconds=420,
            fired=(_JOB_LOST,),
            situation=Situation.FLAPPING,
        ),
        Case(
            name="the job comes back to the metrics: the same alert, of the same class",
            series=_series(
                "0+15x8 stale 150+15x30", "1x8 stale stale stale 1x30", "1x8 stale stale stale 1x30"
            )
            | {JOB_INFO.name + f'{{{JOB}="llama"}}': "1x8 stale stale stale 1x30"},
            at_seconds=195,
            fired=(_JOB_LOST,),
            job_class="production",
            situation=Situation.RESTART,
        ),
        Case(
            name="no alert as a collector restarts between two scrapes",
            series=_series(*("0+15x8 stale 150+15x30", *("1x8 stale 1x30",) * 3)),
            at_seconds=240,
            situation=Situation.RESTART,
        ),
        Case(
            name="no alert while records keep coming",
            series=_series("0+15x40", "0.99x40", "1x40"),
            at_seconds=600,
        ),
        Case(
            name="no alert after the job ended and left the metrics",
            series=_series("0+15x8 120x8 stale", "1x16 stale", "1x8 0x8 stale"),
            at_seconds=600,
        ),
    ),
)
