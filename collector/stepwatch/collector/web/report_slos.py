"""SLO attainment per job class over a report's period. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.slo.objectives import Slo
from stepwatch.collector.web.schema.report import ReportSlo
from stepwatch.signals.arrays import Mask, Matrix, Vector

MOST_PARTS = 14
"""Maximum number of trend parts: one day each up to 14 days, three days each for 30 days."""
_DAY = 86_400
Sums = Callable[[str, tuple[int, ...]], Mapping[str, Matrix]]
"""Returns an SLI's good and total device-seconds before each moment (Unix seconds).

The result is (moments, 2) per job.
"""


def slo_lines(
    objectives: Objectives,
    classes: Mapping[str, Sequence[str]],
    from_s: int,
    until_s: int,
    sums: Sums,
) -> list[ReportSlo]:
    """Return a line per job class and SLO with a device-time target, and a total per SLO.

    The total appears if several classes have the SLO. `classes` maps a class to its job names.
    Ratios are sums over sums: an hour on 1,000 devices weighs 1,000 times an hour on one. Planned
    time does not count. The budget covers the report's period, not the SLO's window.
    """
    edges = part_edges(from_s, until_s)
    by_slo: dict[str, list[tuple[str, int, Matrix]]] = {}
    for name, jobs in sorted(classes.items()):
        for slo in _with_budget(objectives, name):
            counted = _counted(slo, jobs, edges, objectives.without(name), sums)
            by_slo.setdefault(slo.name, []).append((name, len(jobs), counted))
    lines = []
    for name, rows in sorted(by_slo.items()):
        lines += [_line(objectives.slos[name], *row, edges) for row in rows]
        if len(rows) > 1:
            parts = np.sum([row[2] for row in rows], axis=0)
            lines.append(
                _line(objectives.slos[name], None, sum(row[1] for row in rows), parts, edges)
            )
    return lines


def part_edges(from_s: int, until_s: int) -> list[int]:
    """Return the start of each part and the end of the last one, in Unix seconds."""
    days = -(-(until_s - from_s) // _DAY)
    length = -(-days // MOST_PARTS) * _DAY
    return [*range(from_s, until_s, length), until_s]


def _with_budget(objectives: Objectives, job_class: str) -> Iterator[Slo]:
    return (
        slo
        for slo in objectives.slos_for(job_class)
        if slo.limit is None and slo.time_slices is None
    )


def _counted(
    slo: Slo,
    jobs: Sequence[str],
    edges: Sequence[int],
    without: Sequence[tuple[float, float]],
    sums: Sums,
) -> Matrix:
    """Return good and total device-seconds per part without planned time: (parts, 2).

    Parts 0-10 and 10-20, planned 8-12: the moments are 0, 8, 10, 12, 20, and the 2nd and 3rd of the
    four spans are skipped.
    """
    planned = {int(np.ceil(edge)) for span in without for edge in span}
    inside = {edge for edge in planned if edges[0] < edge < edges[-1]}
    moments = tuple(sorted({*edges, *inside}))
    sums_by_job = sums(slo.sli, moments)
    job_sums = [sums_by_job[job] for job in jobs if job in sums_by_job]
    if not job_sums:
        return np.zeros((len(edges) - 1, 2))
    spans = np.diff(np.sum(job_sums, axis=0), axis=0)
    spans[_is_planned(np.array(moments[:-1]), without)] = 0.0
    part = np.searchsorted(edges, moments[:-1], side="right") - 1
    counted = np.zeros((len(edges) - 1, 2))
    np.add.at(counted, part, spans)
    return counted


def _is_planned(begins: Vector, without: Sequence[tuple[float, float]]) -> Mask:
    planned = np.zeros(len(begins), dtype=np.bool_)
    for first, until in without:
        planned |= (begins >= np.ceil(first)) & (begins < np.ceil(until))
    return planned


def _line(
    slo: Slo, job_class: str | None, jobs: int, parts: Matrix, edges: Sequence[int]
) -> ReportSlo:
    good, total = parts.sum(axis=0).tolist()
    allowed = (1.0 - float(slo.target)) * total
    return {
        "slo": slo.name,
        "sli": slo.sli,
        "job_class": job_class,
        "jobs": jobs,
        "target": float(slo.target),
        "good_ratio": _ratio(good, total),
        "lost_device_seconds": round(total - good, 3),
        "allowed_device_seconds": round(allowed, 3),
        "trend": [
            {"from": start, "good_ratio": _ratio(*part)}
            for start, part in zip(edges, parts.tolist(), strict=False)
        ],
    }


def _ratio(good: float, total: float) -> float | None:
    """Return None if nothing was counted: that is neither good nor bad."""
    return round(good / total, 6) if total > 0 else None
