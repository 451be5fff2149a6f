"""Curves of several metrics over a range, from the collector's own history."""

from __future__ import annotations

import math
from typing import Any

from .asked import Range
from .curves import Curves, Name
from .numbers import moments, values, wholes
from .paces import MFU, STEP_SECONDS, TOKENS_PER_SECOND
from .points import Points, few

STANDARD = ("loss", STEP_SECONDS, TOKENS_PER_SECOND, MFU, "grad_norm", "learning_rate")
"""The metrics of an answer if the request names none."""
_OTHER_NAMES = {"learning_rate": "lr"}
"""Names under which the hooks record a metric."""
_RESOLUTIONS = {0: "step", 10: "10s", 60: "1min", 300: "5min", 900: "15min", 3600: "1h"}
"""Names by the seconds of a bucket."""
NOT_RECORDED = "no run that is known recorded a value"
_REASONS = {
    STEP_SECONDS: "no step is known",
    TOKENS_PER_SECOND: "no rank reports tokens: pass tokens= to Watch.step",
    MFU: "it needs tokens, Watch.describe(model={flops_per_token}) and the devices' peak: "
    "environment={device_peak_flops_per_second}",
}


def series_document(
    curves: Curves, wanted: list[str], asked: Range, attempt: int | None = None
) -> dict[str, Any]:
    """Return the curves with the names `wanted`, or the `STANDARD` ones that exist.

    With an `attempt` only its points are in them, those of steps that a later one repeats, too.
    A time without a value has no point. `resolution` is the coarsest that any part comes from,
    before neighbours are merged. `missing` lists the names without a value at any time.
    """
    chosen = {name: _named(curves, name) for name in wanted or STANDARD}
    parts = [
        (name, _points(curves, name, attempt).between(asked.from_s, asked.to_s))
        for names in chosen.values()
        for name in names
    ]
    drawn = [points for _, points in parts if len(points.step)]
    return {
        **curves.about,
        "from": _bound(asked.from_s, [float(points.at.min()) for points in drawn], min),
        "to": _bound(asked.to_s, [float(points.at.max()) for points in drawn], max),
        "resolution": _resolution(drawn),
        "series": [_series(name, few(points, asked.points)) for name, points in parts],
        "missing": [
            {"name": name, "reason": _REASONS.get(name, NOT_RECORDED)}
            for name, names in chosen.items()
            if wanted and not names
        ],
        "available": [
            {"name": name.name, "evaluation": name.evaluation, "unit": name.unit}
            for name in curves.names
        ],
    }


def _points(curves: Curves, name: Name, attempt: int | None) -> Points:
    return curves.points(name) if attempt is None else curves.of_attempt(name, attempt)


def _named(curves: Curves, wanted: str) -> list[Name]:
    names = curves.named(wanted)
    if not names and wanted in _OTHER_NAMES:
        names = curves.named(_OTHER_NAMES[wanted])
    return names


def _bound(asked: float, known: list[float], choose: Any) -> float | None:
    if math.isfinite(asked):
        return asked
    return float(choose(known)) if known else None


def _resolution(drawn: list[Points]) -> str:
    seconds = max((int(points.seconds.max()) for points in drawn), default=0)
    return next((_RESOLUTIONS[length] for length in _RESOLUTIONS if seconds <= length), "1h")


def _series(name: Name, points: Points) -> dict[str, Any]:
    return {
        **name._asdict(),
        "attempt": wholes(points.attempt),
        "step": wholes(points.step),
        "at": moments(points.at),
        "mean": values(points.mean),
        "min": values(points.least),
        "max": values(points.greatest),
        "last": values(points.last),
        "non_finite": wholes(points.non_finite),
    }
