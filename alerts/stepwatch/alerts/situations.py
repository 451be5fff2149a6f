"""Standard cases for every alert: late samples, an exporter restart, and missing data.

They are derived from the alert's first firing case.
Notation: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from .spec import Alert, Case, Situation

_MISSING = "_"
_LATE_SCRAPES = 2
"""Missed scrapes just before the evaluation: half a minute at the usual 15 s."""
_DOWN = ("stale", _MISSING, _MISSING)
_SINCE_RESTART = 8
"""Scrapes from the restart to the evaluation: longer than the longest `for` in a verdict."""


def cases_of(alert: Alert) -> tuple[Case, ...]:
    """Return an alert's cases and the derived ones."""
    return (*alert.cases, *_derived(alert))


def _derived(alert: Alert) -> Iterator[Case]:
    present = {case.situation for case in alert.cases}
    firing = [case for case in alert.cases if case.fired]
    first = firing[0]
    lasting = next((case for case in firing if _restart_at(case) > 0), first)
    if Situation.LATE not in present:
        yield _changed(first, Situation.LATE, "its newest samples are late", _delayed)
    if Situation.RESTART not in present:
        yield _changed(lasting, Situation.RESTART, "its exporter restarts", _restarted)
    if Situation.MISSING not in present and not alert.never_silent:
        name = f"no alert where nothing is known of: {first.name}"
        yield replace(first, name=name, situation=Situation.MISSING, fired=(), series={})


def _changed(
    case: Case, situation: Situation, suffix: str, change: Callable[[list[str], int], list[str]]
) -> Case:
    last = case.at_seconds // case.interval_seconds
    series = {name: " ".join(change(samples(values), last)) for name, values in case.series.items()}
    return replace(case, name=f"{case.name}; {suffix}", situation=situation, series=series)


def _delayed(values: list[str], last: int) -> list[str]:
    first = last - _LATE_SCRAPES + 1
    missed = values[first : last + 1]
    return values[:first] + [_MISSING] * len(missed) + values[last + 1 :]


def _restart_at(case: Case) -> int:
    return case.at_seconds // case.interval_seconds - _SINCE_RESTART - len(_DOWN)


def _restarted(values: list[str], last: int) -> list[str]:
    first = last - _SINCE_RESTART - len(_DOWN)
    # A series that did not exist cannot become stale.
    if not 0 < first < len(values) or values[first - 1] in (_MISSING, "stale"):
        return values
    return values[:first] + list(_DOWN) + values[first + len(_DOWN) :]


def samples(values: str) -> list[str]:
    """Expand a series to samples: `0x2 _x1 1+2x1` is 0 0 0 _ 1 3."""
    return [sample for part in values.split() for sample in _samples(part)]


def _samples(part: str) -> Iterator[str]:
    match = re.fullmatch(r"(-?[\d.]+)([+-][\d.]+)?x(\d+)", part)
    if match is None:
        missing = re.fullmatch(r"_x(\d+)", part)
        yield from [_MISSING] * int(missing[1]) if missing else [part]
        return
    first, step = float(match[1]), float(match[2] or 0.0)
    for number in range(int(match[3]) + 1):
        yield f"{first + number * step:.10g}"
