"""Detectors' thresholds: the shipped values, and the changed ones for a job class in a site file.

    classes:
      research:
        slos: [goodput]
        thresholds:
          straggler: {least_ratio: 2.0}

A detector is called as its folder, with dashes: `slow-collective`. Its folder exports `LIMITS`, an
instance of a frozen dataclass with a default for each field.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

from stepwatch.collector.detect.registry import folders
from stepwatch.collector.slo.asked.problems import Hints, refuse, validated
from stepwatch.collector.slo.asked.site_schema import KEYS, OTHERS, REMEDIES, SiteDocument
from stepwatch.collector.slo.asked.yaml_lines import Place
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.phrases import closest_hint, file_problem


class Reason(NamedTuple):
    """A threshold's unit, and its meaning with the reason for its value."""

    unit: str
    text: str


class Change(NamedTuple):
    """A threshold's value for a job class, and its line in the site file."""

    job_class: str
    detector: str
    field: str
    value: Any
    line: int


def shipped_thresholds() -> dict[str, Any]:
    """Return each detector's shipped thresholds by its name."""
    limits = ((name, getattr(folder, "LIMITS", None)) for name, folder in folders())
    return {name.replace("_", "-"): values for name, values in limits if values is not None}


def reasons(limits: Any) -> dict[str, Reason]:
    """Return the reason for each field of a detector's thresholds, from the text under it."""
    (definition,) = ast.parse(dedent(inspect.getsource(type(limits)))).body
    assert isinstance(definition, ast.ClassDef)
    by_field: dict[str, Reason] = {}
    for declared, below in zip(definition.body, definition.body[1:], strict=False):
        match declared, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                unit, _, reason = " ".join(text.split()).partition(": ")
                by_field[name] = Reason(unit.lower(), reason[:1].upper() + reason[1:])
    return by_field


def read_thresholds(site: Path | None) -> dict[str, dict[type, Any]]:
    """Return the thresholds that a site file changes, by job class and by their type.

    Raises:
        ConfigurationError: as in `read_changes`.
    """
    if site is None:
        return {}
    shipped, classes = shipped_thresholds(), dict[str, dict[type, Any]]()
    for change in read_changes(site):
        limits, default = classes.setdefault(change.job_class, {}), shipped[change.detector]
        current = limits.get(type(default), default)
        limits[type(default)] = replace(current, **{change.field: change.value})
    return classes


def read_changes(site: Path, job_class: str | None = None) -> list[Change]:
    """Return the thresholds that a site file changes, for all classes or for `job_class`.

    Raises:
        ConfigurationError: it cannot be read or is wrong; a line per problem.
    """
    try:
        text = site.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{site}: cannot be read: {file_problem(error)}; pass --site FILE"
        ) from error
    document, parsed = validated(SiteDocument, text, str(site), Hints(REMEDIES, KEYS))
    refuse(threshold_problems(parsed), document, str(site))
    shipped, classes = shipped_thresholds(), parsed.classes
    names = classes if job_class is None else {job_class if job_class in classes else OTHERS}
    return [
        Change(
            name,
            detector,
            field,
            _value(written, getattr(shipped[detector], field)),
            document.line_of(("classes", name, "thresholds", detector, field)),
        )
        for name, site_class in classes.items()
        if name in names
        for detector, values in site_class.thresholds.items()
        for field, written in values.items()
    ]


def threshold_problems(site: SiteDocument) -> Iterator[tuple[Place, str]]:
    """Yield the problems with the thresholds of job classes: places, and remedies."""
    for job_class, site_class in site.classes.items():
        for detector, values in site_class.thresholds.items():
            place = ("classes", job_class, "thresholds", detector)
            for inner, problem in _problems(detector, values):
                yield (*place, *inner), ".".join((*place, *inner)) + f": {problem}"


def _problems(detector: str, values: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    shipped = shipped_thresholds()
    if detector not in shipped:
        yield (), f"there is no such detector; {closest_hint(detector, shipped)}"
    elif not isinstance(values, Mapping):
        yield (), "write its thresholds with their values, such as {least_ratio: 2.0}"
    else:
        limits = asdict(shipped[detector])
        for name, written in values.items():
            if name not in limits:
                hint = closest_hint(name, limits, list_known=False)
                listed = f"`stepwatch thresholds {detector}` lists them"
                yield (name,), f"there is no such threshold; {hint or listed}"
            elif (value := _value(written, limits[name])) is None:
                yield (name,), f"write {_kind(limits[name])} above 0, such as {_text(limits[name])}"
            elif name.endswith("_ratio") and value <= 1.0 < limits[name]:
                yield (name,), f"write a ratio above 1, such as {_text(limits[name])}"
            elif name.endswith("_share") and value > 1.0:
                yield (name,), f"write a share of at most 1, such as {_text(limits[name])}"
            else:
                limits[name] = value
        yield from _too_short_windows(limits, values)


def _too_short_windows(
    limits: Mapping[str, Any], written: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield windows with fewer steps than a verdict needs: the detector would find nothing."""
    for window in limits:
        least = window.replace("window_steps", "least_steps")
        changed = next((name for name in (least, window) if name in written), None)
        if window == least or changed is None or least not in limits:
            continue
        if limits[least] > limits[window]:
            needed = f"{least} is {limits[least]}, {window} only {limits[window]}"
            yield (changed,), f"no verdict is possible: {needed}"


def _value(written: Any, shipped: Any) -> Any:
    """Return the written value in the type of the shipped one; None if it is invalid."""
    if isinstance(shipped, tuple):
        items = [_value(item, shipped[0]) for item in written] if isinstance(written, list) else []
        return tuple(items) if items and None not in items else None
    try:
        number = type(shipped)(written)
    except (TypeError, ValueError):
        return None
    return number if not isinstance(written, bool) and 0 < number < math.inf else None


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return "a list of whole numbers"
    return "a whole number" if isinstance(value, int) else "a number"


def _text(value: Any) -> str:
    return str(list(value) if isinstance(value, tuple) else value)
