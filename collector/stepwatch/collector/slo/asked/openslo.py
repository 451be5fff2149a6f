"""SLO documents: OpenSLO v1 YAML, checked against a schema, with line numbers in errors."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from importlib import resources
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stepwatch.collector.slo.asked.openslo_schema import (
    KEYS,
    Calendar,
    Document,
    Metric,
    Objective,
    TimeWindow,
)
from stepwatch.collector.slo.asked.problems import Hints, validated
from stepwatch.collector.slo.asked.windows import (
    CalendarWindow,
    RollingWindow,
    RunWindow,
    Window,
    longest_seconds,
)
from stepwatch.collector.slo.asked.yaml_lines import Place
from stepwatch.collector.slo.ladder import coarsest_seconds
from stepwatch.collector.slo.objectives import SHORT_WINDOW_SECONDS, Limit, Slo, TimeSlices
from stepwatch.collector.slo.over_run.registry import discover_run_slis
from stepwatch.collector.slo.registry import discover
from stepwatch.collector.store.slices import SLICE_SECONDS
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import closest_hint
from stepwatch.signals.places import NAME_LIMIT

MAX_WINDOW_SECONDS = 366 * 86_400
_RUN = "run"
_START = "%Y-%m-%d %H:%M:%S"
_DURATIONS = "write a duration between 1m and 366d, such as 1h, 28d or 4w, or run"
_DURATION = re.compile(r"(\d{1,9})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


_METRIC = ("spec", "indicator", "spec")
_WHAT_TO_DO = {
    "apiVersion": "write openslo/v1",
    "kind": "write SLO",
    "metadata.name": f"write 1-{NAME_LIMIT} letters, digits, '.', '_' or '-'",
    "spec.timeWindow": "give exactly one window",
    "spec.timeWindow.duration": _DURATIONS,
    "spec.timeWindow.isRolling": "write true, or false with a calendar",
    "spec.budgetingMethod": "write Occurrences for device-seconds, or Timeslices; RatioTimeslices "
    "would be an average of ratios, which hides hours of large jobs",
    "spec.objectives": "give exactly one objective; write a document for each",
    "spec.objectives.target": "write a share of good device-time between 0 and 1, such as 0.95",
    "spec.objectives.op": "write lte, lt, gte or gt",
    "spec.objectives.timeSliceTarget": "write the share of a slice that must be good, such as 0.95",
    "spec.objectives.timeSliceWindow": "write the length of a slice, such as 5m",
}


class _Problem(Exception):
    """A problem at a place in a document."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place


def parse_slo(text: str, source: str, slis: Collection[str] | None = None) -> Slo:
    """Read one OpenSLO v1 document; `slis` are the valid names, by default the registry's.

    A `ratioMetric` needs a window: rolling, calendar, or `duration: run`, our extension. A
    `thresholdMetric` is about an SLI over the run, and its objective has `op` and `value`.

    Raises:
        ConfigurationError: it is not a valid document, or requires an unsupported evaluation. One
            line per problem: `source:line: problem; remedy`.
    """
    document, parsed = validated(Document, text, source, Hints(_WHAT_TO_DO, KEYS))
    try:
        return _slo_of(parsed, slis)
    except _Problem as problem:
        place = ".".join(str(part) for part in problem.place if isinstance(part, str))
        raise ConfigurationError(
            f"{source}:{document.line_of(problem.place)}: {place}: {problem}"
        ) from problem


def _slo_of(parsed: Document, slis: Collection[str] | None) -> Slo:
    """Build the SLO from a document with a valid shape.

    Raises:
        _Problem: a part cannot be evaluated.
    """
    indicator, objective = parsed.spec.indicator.spec, parsed.spec.objectives[0]
    where: Place = ("spec", "objectives", 0)
    name, title = parsed.metadata.name, parsed.metadata.displayName
    if indicator.thresholdMetric is not None:
        of_sli: Place = (*_METRIC, "thresholdMetric", "metricSource", "spec", "sli")
        sli = _sli_name(indicator.thresholdMetric, of_sli, discover_run_slis())
        if objective.op is None or objective.value is None:
            raise _Problem(where, "a threshold needs op and value, such as op: lte, value: 0.01")
        if objective.target is not None:
            raise _Problem((*where, "target"), "a threshold has no target; leave it out")
        if parsed.spec.timeWindow and parsed.spec.timeWindow[0].duration != _RUN:
            raise _Problem(
                ("spec", "timeWindow", 0), "a threshold is about the run; write duration: run"
            )
        limit = Limit(objective.op, objective.value)
        return Slo(name, title, sli, Decimal(1), RunWindow(), limit)
    assert indicator.ratioMetric is not None
    place: Place = (*_METRIC, "ratioMetric", "good", "metricSource", "spec", "sli")
    sli = _sli_name(indicator.ratioMetric.good, place, discover() if slis is None else slis)
    total = indicator.ratioMetric.total
    if total is not None and total.metricSource.spec.sli != sli:
        place = (*_METRIC, "ratioMetric", "total", "metricSource", "spec", "sli")
        raise _Problem(place, f"good and total must be of one SLI; write {sli}")
    if objective.op is not None or objective.value is not None:
        raise _Problem(where, "op and value are for thresholdMetric; write target")
    if objective.target is None:
        raise _Problem(where, "target is missing; write a share between 0 and 1, such as 0.95")
    if not parsed.spec.timeWindow:
        raise _Problem(("spec",), "timeWindow is missing; write - duration: 28d")
    window = _window(parsed.spec.timeWindow[0])
    slices = _time_slices(parsed.spec.budgetingMethod, objective, window)
    return Slo(name, title, sli, objective.target, window, time_slices=slices)


def _time_slices(method: str, objective: Objective, window: Window) -> TimeSlices | None:
    """Return the requested slices of time; None with Occurrences."""
    where: Place = ("spec", "objectives", 0)
    requested = objective.timeSliceTarget, objective.timeSliceWindow
    if method != "Timeslices":
        if requested != (None, None):
            raise _Problem(
                where, "timeSliceTarget and timeSliceWindow need budgetingMethod: Timeslices"
            )
        return None
    share, length = requested
    if share is None or length is None:
        message = "Timeslices need timeSliceTarget and timeSliceWindow, such as 0.95 and 5m"
        raise _Problem(where, message)
    match = _DURATION.fullmatch(length)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not SLICE_SECONDS <= seconds <= min(longest_seconds(window), MAX_WINDOW_SECONDS):
        message = f"{length} is not part of the window; write the length of a slice, such as 5m"
        raise _Problem((*where, "timeSliceWindow"), message)
    coarsest = coarsest_seconds(longest_seconds(window))
    if seconds % coarsest:
        message = (
            f"a window of {window.words} is kept in slices of "
            f"{coarsest // 60} min; write a multiple of {coarsest // 60}m"
        )
        raise _Problem((*where, "timeSliceWindow"), message)
    return TimeSlices(share, seconds)


def _sli_name(metric: Metric, place: Place, slis: Collection[str]) -> str:
    sli = metric.metricSource.spec.sli
    if sli not in slis:
        names = sorted(slis)
        hint = closest_hint(sli, names, list_known=False)
        message = (
            f"there is no SLI {sli[:80]!r}; {hint and hint + ' '}write one of {', '.join(names)}"
        )
        raise _Problem(place, message)
    return sli


def _window(wanted: TimeWindow) -> Window:
    place: Place = ("spec", "timeWindow", 0, "duration")
    if wanted.duration == _RUN:
        return RunWindow()
    if wanted.calendar is not None:
        return _calendar(wanted, wanted.calendar)
    if not wanted.isRolling:
        raise _Problem(
            ("spec", "timeWindow", 0, "isRolling"),
            "a window that does not roll needs a calendar with startTime and timeZone; write true",
        )
    match = _DURATION.fullmatch(wanted.duration)
    if match is None:
        raise _Problem(place, f"{wanted.duration[:80]!r} is not a duration; {_DURATIONS}")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if not SHORT_WINDOW_SECONDS <= seconds <= MAX_WINDOW_SECONDS:
        raise _Problem(place, f"{wanted.duration} is not between 1m and 366d; {_DURATIONS}")
    return RollingWindow(seconds)


def _calendar(wanted: TimeWindow, calendar: Calendar) -> CalendarWindow:
    place: Place = ("spec", "timeWindow", 0)
    match = re.fullmatch(r"(\d{1,3})([dwMQY])", wanted.duration)
    if match is None or not 1 <= int(match[1]) <= 366:
        message = f"{wanted.duration[:80]!r} is not a calendar period; write 1d, 1w, 1M, 1Q or 1Y"
        raise _Problem((*place, "duration"), message)
    try:
        start = datetime.strptime(calendar.startTime, _START)
    except ValueError:
        message = (
            f"{calendar.startTime[:80]!r} is not a local time; write one as 2026-01-01 00:00:00"
        )
        raise _Problem((*place, "calendar", "startTime"), message) from None
    try:
        ZoneInfo(calendar.timeZone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f"there is no time zone {calendar.timeZone[:80]!r}; write such as Europe/Berlin"
        raise _Problem((*place, "calendar", "timeZone"), message) from None
    return CalendarWindow(int(match[1]), match[2], start, calendar.timeZone)


def default_slos() -> list[Slo]:
    """Return the SLOs shipped with stepwatch."""
    folder = resources.files(__package__) / "documents"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return [parse_slo((folder / name).read_text(encoding="utf-8"), name) for name in names]
