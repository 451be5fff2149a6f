"""Event annotations on every panel: restarts, checkpoints, incidents, deploys.

The first three come from the selected jobs' metrics. No metric reports deploys: a pipeline posts
them to Grafana's own annotations with the tag `DEPLOY_TAG`
(https://grafana.com/docs/grafana/latest/developers/http_api/annotations/).
"""

from __future__ import annotations

from stepwatch.signals.names import (
    ATTEMPT,
    CHECKPOINT_VERIFIED_STEP,
    INCIDENT_OPEN,
    JOB,
    JOB_INFO,
    KIND,
    Metric,
)

from .panels import SOURCE
from .queries import JOB_VARIABLE
from .sdk import builders, common

DEPLOY_TAG = "deploy"
_GRAFANA = common.DataSourceRef(type_val="grafana", uid="-- Grafana --")
_BEFORE = " offset 1m"
# A single-value variable is compared literally: in a pattern a dot in its name matches anything.
_ONE, _SEVERAL = f'{JOB}="${JOB_VARIABLE}"', f'{JOB}=~"${JOB_VARIABLE}"'


def annotated(page: builders.Dashboard, *, several: bool) -> builders.Dashboard:
    """Add annotations for one selected job, or for `several`.

    For several jobs checkpoint annotations are initially off: they would cover the panels.
    """
    chosen = _SEVERAL if several else _ONE
    shown = (
        ("Attempt began", "purple", attempt_began(chosen), ATTEMPT),
        ("Incident opened", "red", incident_opened(chosen), KIND),
        ("Checkpoint verified", "green", checkpoint_verified(chosen), JOB),
    )
    for name, color, expr, label in shown:
        on = label != JOB or not several
        page = page.annotation(_of_metrics(name, color, expr, label).enable(on))
    return page.annotation(_deploys())


def attempt_began(chosen: str = _ONE) -> str:
    """Return attempts that did not exist a minute ago; `chosen` is a label matcher."""
    now, previous = (_newest(JOB_INFO, chosen, offset, ATTEMPT) for offset in ("", _BEFORE))
    return f"{now} unless {previous}"


def incident_opened(chosen: str = _ONE) -> str:
    """Return incident kinds without an open incident a minute ago."""
    now, previous = (
        f"{_newest(INCIDENT_OPEN, chosen, offset, KIND)} > 0" for offset in ("", _BEFORE)
    )
    return f"{now} unless {previous}"


def checkpoint_verified(chosen: str = _ONE) -> str:
    """Return jobs with a new verified checkpoint since a minute ago."""
    now, previous = (_newest(CHECKPOINT_VERIFIED_STEP, chosen, offset) for offset in ("", _BEFORE))
    return f"{now} unless {now} == {previous}"


def _newest(metric: Metric, chosen: str, offset: str, *labels: str) -> str:
    return f"max by ({', '.join((JOB, *labels))}) ({metric.name}{{{chosen}}}{offset})"


def _of_metrics(name: str, color: str, expr: str, label: str) -> builders.AnnotationQuery:
    of_job = "" if label == JOB else f" of {{{{{JOB}}}}}"
    return (
        builders.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .icon_color(color)
        .expr(expr)
        .title_format(f"{{{{{label}}}}}{of_job}")
    )


def _deploys() -> builders.AnnotationQuery:
    tagged = builders.AnnotationTarget().type("tags").tags([DEPLOY_TAG]).limit(100).match_any(True)
    return (
        builders.AnnotationQuery()
        .name("Deploy")
        .datasource(_GRAFANA)
        .enable(True)
        .icon_color("blue")
        .type("tags")
        # Trap: the SDK declares the target to be a query; for Grafana's own annotations it is this.
        .target(tagged)  # type: ignore[arg-type]
    )
