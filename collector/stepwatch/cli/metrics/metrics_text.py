"""Metrics as text: a table with a small curve for each, or one metric's curve. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepwatch.cli import text
from stepwatch.cli.fleet import stale_text

_BLOCKS = "▁▂▃▄▅▆▇█"
_SMALL, _ROWS, _MARGIN = 16, 10, 12
"""Columns of a small curve; rows of a large one, and columns of its axis."""

Column = Sequence[Any]


def metrics_text(job: dict[str, Any], width: int) -> str:
    """Return the table: each metric's newest value, its range over ranks, and its curve."""
    metrics = job["metrics"]
    lines = _head(job, width)
    if not metrics:
        return "\n".join([*lines, "no metric was recorded; a trainer records one with "
                                  "step.record(lr=...)"])  # fmt: skip
    rows = [
        [
            full_name(metric),
            _value(metric["newest"]),
            metric["unit"],
            _span(metric["newest"]),
            str(metric["newest"]["step"]),
            small_curve(metric),
        ]
        for metric in metrics
    ]
    head = ["metric", "newest", "unit", "ranks", "step", f"{'curve':<{_SMALL}}"]
    keep = [place for place, _ in enumerate(head) if any(row[place] for row in rows)]
    picked = [[row[place] for place in keep] for row in (head, *rows)]
    lines += ["", text.table(picked[0], picked[1:], left_columns=1)]
    lines += ["", *_notes(metrics, width)] if any(metric["note"] for metric in metrics) else []
    return "\n".join(lines)


def metric_text(job: dict[str, Any], metric: Mapping[str, Any], width: int) -> str:
    """Return one metric with a curve over all of its steps."""
    newest, columns = metric["newest"], all_points(metric)
    unit = f" {metric['unit']}" if metric["unit"] else ""
    better = f", {metric['better']} is better" if metric["better"] else ""
    span = f"; ranks {_span(newest)}" if _span(newest) else ""
    words = f"{full_name(metric)}: {_value(newest)}{unit} at step {newest['step']}{span}{better}"
    lines = [*_head(job, width), "", text.wrapped(words, "", width, hang=2)]
    lines += _notes([metric], width)
    bad = sum(columns["non_finite"])
    if bad:
        lines.append(text.wrapped(f"{bad} values are NaN or infinite and in no mean", "", width))
    return "\n".join([*lines, "", *_plot(columns, width - _MARGIN)])


def full_name(metric: Mapping[str, Any]) -> str:
    """Return a metric's name, for an evaluation with the evaluation's name in front."""
    return "/".join(filter(None, (metric["evaluation"], metric["name"])))


def all_points(metric: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return a curve in step order from all resolutions, each for the steps that finer ones lack.

    An hour with steps 0 to 800, and steps from 500 on: the hour counts until step 499.
    """
    joined: dict[str, list[Any]] = {}
    for columns in metric["curves"].values():
        begin = joined["first_step"][0] if joined.get("step") else None
        keep = [
            place
            for place, first_step in enumerate(columns["first_step"])
            if begin is None or first_step < begin
        ]
        for name, column in columns.items():
            joined[name] = [column[place] for place in keep] + joined.get(name, [])
        if begin is not None and keep:
            joined["step"][len(keep) - 1] = min(joined["step"][len(keep) - 1], begin - 1)
    return joined


def small_curve(metric: Mapping[str, Any]) -> str:
    """Return the means over all steps as `▁▂▃`, in `_SMALL` columns; a gap where none is finite."""
    means = _binned(all_points(metric), _SMALL)
    finite = means[np.isfinite(means)]
    if not len(finite):
        return ""
    low, high = float(finite.min()), float(finite.max())
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    levels = ((mean - low) * scale if np.isfinite(mean) else None for mean in means.tolist())
    return "".join(" " if level is None else _BLOCKS[round(level)] for level in levels)


def _binned(columns: Mapping[str, Column], bins: int) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Return the last mean in each of at most `bins` equal ranges of steps; NaN without any.

    A bucket counts until the next one begins. Buckets of steps 0 to 4, 5 and 9 with means 5, 3 and
    2 in five ranges -> 5, 5, 3, 3, 2.
    """
    starts = np.array(columns["first_step"], dtype=np.int64)
    means = [np.nan if mean is None else mean for mean in columns["mean"]]
    span = columns["step"][-1] - columns["first_step"][0] + 1
    bins = int(min(bins, span))
    begins = ((starts - starts[0]) * bins // span).tolist()
    binned = np.full(bins, np.nan)
    for begin, end, mean in zip(begins, [*begins[1:], bins], means, strict=True):
        binned[begin : max(end, begin + 1)] = mean
    return binned


def _plot(columns: Mapping[str, Column], width: int) -> list[str]:
    """Return the curve as rows of stars above an axis with the first and the last step."""
    means = _binned(columns, width)
    finite = np.isfinite(means)
    if not finite.any():
        return ["no finite value to draw"]
    low, high = float(means[finite].min()), float(means[finite].max())
    scale = (_ROWS - 1) / (high - low) if high > low else 0.0
    grid = [[" "] * len(means) for _ in range(_ROWS)]
    for place in np.flatnonzero(finite).tolist():
        grid[_ROWS - 1 - round((means[place] - low) * scale)][place] = "*"
    labels = {0: f"{high:.4g}" if high > low else "", _ROWS - 1: f"{low:.4g}"}
    rows = [f"{labels.get(row, ''):>10} |{''.join(line)}".rstrip() for row, line in enumerate(grid)]
    first, last = f"step {columns['first_step'][0]}", str(columns["step"][-1])
    gap = " " * max(1, len(means) - len(first) - len(last))
    return [*rows, f"{'':>10} +{'-' * len(means)}", f"{'':>12}{first}{gap}{last}"]


def _head(job: dict[str, Any], width: int) -> list[str]:
    lines = [f"{job['job']}: {text.painted(job['state'])}, attempt {job['attempt']}"]
    if job.get("stale"):
        lines.append(text.wrapped(stale_text(job), "", width, hang=2))
    if job["refused_names"]:
        lines.append("a job has at most 64 metrics: further names are left out")
    return lines


def _notes(metrics: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    noted = [metric for metric in metrics if metric["note"]]
    return [text.wrapped(f"{full_name(m)}: {m['note']}", "", width, hang=2) for m in noted]


def _value(newest: Mapping[str, Any]) -> str:
    """Return the mean over ranks, or the word for a value that is not finite."""
    return str(newest["last"]) if newest["mean"] is None else _short(newest["mean"])


def _span(newest: Mapping[str, Any]) -> str:
    """Return `2.1 to 2.4` where ranks differ."""
    low, high = newest["min"], newest["max"]
    bad = f"{newest['non_finite']} not finite" if newest["non_finite"] else ""
    differ = low is not None and low != high
    return ", ".join(filter(None, (f"{_short(low)} to {_short(high)}" if differ else "", bad)))


def _short(value: float) -> str:
    whole = value == int(value) and abs(value) < 1e9
    return f"{value:.0f}" if whole else f"{value:.4g}"
