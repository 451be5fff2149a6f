"""Panels on ended jobs: success and duration by class, and convergence.

Counts cover jobs that a collector still exports, in their current state: a failed job that was
restarted does not count as failed. A share is unreliable for few jobs, so counts are shown, too.
"""

from __future__ import annotations

from stepwatch.signals import names
from stepwatch.signals.names import JOB, JOB_CLASS, KIND, OUTCOME, FindingKind

from . import fleet
from .layout import Section
from .panels import Line, Metadata, Panel, lines, number, rows

_FINISHED = f'{OUTCOME}="finished"'
_DECIDED = f'{OUTCOME}=~"finished|failed"'
"""A job that a person stopped is neither a success nor a failure, as in the SLI job-success."""
_NONE_ENDED = "none ended"
_OF_LEARNING = "|".join(
    kind.value
    for kind in (
        FindingKind.LOSS_ANOMALY,
        FindingKind.NON_FINITE,
        FindingKind.SILENT_CORRUPTION,
        FindingKind.REPLICA_DRIFT,
    )
)

# Two collectors may briefly disagree on a job's class, and a join must match one.
_CLASS = f"topk by ({JOB}) (1, {fleet.of_jobs(names.JOB_INFO, JOB_CLASS)})"
_ENDED = fleet.of_jobs(names.JOB_OUTCOME, OUTCOME)
_SUCCEEDED = fleet.of_jobs(names.JOB_OUTCOME, OUTCOME, matching=_FINISHED)


def _with_class(expr: str) -> str:
    return f"{expr} * on ({JOB}) group_left ({JOB_CLASS}) {_CLASS}"


def ended_jobs() -> Section:
    """Return success, counts, convergence and duration for selected jobs that ended."""
    return Section("Jobs that ended", [_success(), _counts(), _converged(), _durations()])


def _success() -> Panel:
    metadata = Metadata(
        "Success of jobs by class",
        "Finished jobs over finished and failed ones that the collector still shows.",
        "percentunit",
        16,
        _NONE_ENDED,
    )
    decided = fleet.of_jobs(names.JOB_OUTCOME, OUTCOME, matching=_DECIDED)
    ended = f"count by ({JOB_CLASS}) ({_with_class(decided)})"
    good = f"count by ({JOB_CLASS}) ({_with_class(_SUCCEEDED)})"
    # A class without a finished job has share 0, not no data.
    share = f"({good} or 0 * {ended}) / {ended}"
    return lines(metadata, Line(share, f"{{{{{JOB_CLASS}}}}}"))


def _converged() -> Panel:
    metadata = Metadata(
        "Converged",
        "Of the jobs that finished, those without an incident of the loss or of numbers.",
        "percentunit",
        8,
        _NONE_ENDED,
    )
    bad = fleet.of_jobs(names.JOB_INCIDENTS, matching=f'{KIND}=~"{_OF_LEARNING}"')
    finished = f"count({_SUCCEEDED})"
    good = f"count({_SUCCEEDED} unless on ({JOB}) {bad} > 0)"
    return number(metadata, Line(f"({good} or 0 * {finished}) / {finished}")).height(6)


def _counts() -> Panel:
    metadata = Metadata(
        "Ended, by class", "Each job as its newest attempt ended.", "none", 8, _NONE_ENDED
    )
    counted = f"count by ({JOB_CLASS}, {OUTCOME}) ({_with_class(_ENDED)})"
    columns = {JOB_CLASS: "class", OUTCOME: "ended", "Value": "jobs"}
    return rows(metadata, Line(counted), columns=columns, height=8)


def _durations() -> Panel:
    metadata = Metadata(
        "Time to complete",
        "From the first start to the last step of jobs that finished; restarts are in it.",
        "s",
        16,
        _NONE_ENDED,
    )
    duration = _with_class(fleet.of_jobs(names.JOB_DURATION))
    usual = f"quantile by ({JOB_CLASS}) (0.5, {duration})"
    longest = f"max by ({JOB_CLASS}) ({duration})"
    columns = {JOB_CLASS: "class", "Value #A": "median", "Value #B": "longest"}
    return rows(metadata, Line(usual), Line(longest), columns=columns)
