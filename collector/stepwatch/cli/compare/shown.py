"""A comparison as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwatch.cli import text

_LEAST_SECONDS = 0.0005
_MOST_CHANGES = 40
_WIDEST = 48


def comparison_text(found: Mapping[str, Any]) -> str:
    """The verdict first, then figures, phases and what changed."""
    base, new = found["runs"]
    parts = [
        f"{_name(base)}  ->  {_name(new)}",
        text.wrapped(_headline(found), "", hang=2),
        _figures(found),
    ]
    phases = [each for each in found["phases"] if _shows(each)]
    if phases:
        parts.append(_phases(phases, found["phase_steps"]))
    parts.append(_changes(found))
    return "\n\n".join(parts)


def _name(run: Mapping[str, Any]) -> str:
    return (
        f"{run['job']} (attempt {run['attempt']}, {text.count(run['devices'])} devices, "
        f"{text.count(run['steps'])} steps)"
    )


def _headline(found: Mapping[str, Any]) -> str:
    bound, ratio = f"the bound is {found['bound']:.3g}", found["ratio"]
    if ratio is None:
        return f"{found['verdict'].upper()}: {found['why']}"
    change, low, high = (
        f"{ratio[name] - 1:+.1%}" if ratio[name] is not None and ratio[name] < 1e3 else "?"
        for name in ("value", "low", "high")
    )
    words = f"{change} {found['quantity']} (95 % interval {low} to {high}); {bound}"
    return f"{found['verdict'].upper()}: {words}" + (f"; {found['why']}" if found["why"] else "")


def _figures(found: Mapping[str, Any]) -> str:
    base, new = found["runs"]
    units = {"device_second": "/s per device", "second": "/s", "money": f" per {found['currency']}"}
    rows = []
    for name in base:
        unit = units.get(name.partition("_per_")[2])
        if unit is not None and base[name] is not None and new.get(name) is not None:
            work = name.partition("_per_")[0]
            rows.append(_row(f"{work}{unit}", base[name], new[name], ""))
    for name in base["slis"]:
        before, after = base["slis"][name], new["slis"].get(name, {})
        if before["value"] is not None and after.get("value") is not None:
            rows.append(_row(name, before["value"], after["value"], before["unit"]))
    for kind in sorted({*base["incidents"], *new["incidents"]}):
        counts = [run["incidents"].get(kind, 0) for run in (base, new)]
        rows.append([f"incidents: {kind}", *map(str, counts), f"{counts[1] - counts[0]:+d}"])
    return text.table(["", "before", "after", "change"], rows, "")


def _row(name: str, before: float, after: float, unit: str) -> list[str]:
    change = f"{after / before - 1:+.1%}" if before else ""
    if unit == "ratio":
        points = f"{(after - before) * 100:+.2f} points"
        return [name, text.share(before), text.share(after), points]
    known = unit if unit in ("seconds", "times") else ""
    return [name, text.quantity(before, known), text.quantity(after, known), change]


def _shows(phase: Mapping[str, Any]) -> bool:
    return bool(max(phase["before"], phase["after"]) >= _LEAST_SECONDS)


def _phases(phases: Sequence[Mapping[str, Any]], steps: Sequence[int]) -> str:
    rows = [
        [
            each["phase"].replace("_", "-"),
            text.quantity(each["before"], "seconds"),
            text.quantity(each["after"], "seconds"),
            f"{(each['after'] - each['before']) * 1e3:+.1f} ms",
        ]
        for each in phases
    ]
    shown = text.table(["a step, mean of ranks", "before", "after", "change"], rows, "")
    return f"{shown}\nof the newest {steps[0]} and {steps[1]} steps without saves and evaluation"


def _changes(found: Mapping[str, Any]) -> str:
    if not found["are_described"]:
        return "what changed: unknown, as nothing is recorded of what a run was made of"
    if not found["changes"]:
        return "what changed: nothing that is recorded (configuration, code, data, environment)"
    rows = [
        [each["name"], *(_cut(each[side]) for side in ("before", "after"))]
        for each in found["changes"][:_MOST_CHANGES]
    ]
    shown = text.table(["what changed", "before", "after"], rows, "", left=3)
    left = len(found["changes"]) - _MOST_CHANGES
    return f"{shown}\n{left} more; --json has all of them" if left > 0 else shown


def _cut(value: str | None) -> str:
    if value is None:
        return "-"
    return value if len(value) <= _WIDEST else f"{value[: _WIDEST - 3]}..."
