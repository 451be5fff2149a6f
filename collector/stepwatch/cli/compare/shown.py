"""A comparison as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwatch.cli import text

_LEAST_SECONDS = 0.0005
_MOST_CHANGES = 40
_WIDEST = 48


def comparison_text(comparison: Mapping[str, Any]) -> str:
    """Return the comparison as text: verdict, figures, phases, changes."""
    base, new = comparison["runs"]
    parts = [
        f"{_name(base)}  ->  {_name(new)}",
        text.wrapped(_headline(comparison), "", hang=2),
        _figures(comparison),
    ]
    phases = [phase for phase in comparison["phases"] if _shows(phase)]
    if phases:
        parts.append(_phases(phases, comparison["phase_steps"]))
    parts.append(_changes(comparison))
    return "\n\n".join(parts)


def _name(run: Mapping[str, Any]) -> str:
    return (
        f"{run['job']} (attempt {run['attempt']}, {text.count(run['devices'])} devices, "
        f"{text.count(run['steps'])} steps)"
    )


def _headline(comparison: Mapping[str, Any]) -> str:
    bound, ratio = f"the bound is {comparison['bound']:.3g}", comparison["ratio"]
    if ratio is None:
        return f"{comparison['verdict'].upper()}: {comparison['why']}"
    change, low, high = (
        f"{ratio[name] - 1:+.1%}" if ratio[name] is not None and ratio[name] < 1e3 else "?"
        for name in ("value", "low", "high")
    )
    words = f"{change} {comparison['quantity']} (95 % interval {low} to {high}); {bound}"
    return f"{comparison['verdict'].upper()}: {words}" + (
        f"; {comparison['why']}" if comparison["why"] else ""
    )


def _figures(comparison: Mapping[str, Any]) -> str:
    base, new = comparison["runs"]
    units = {
        "device_second": "/s per device",
        "second": "/s",
        "money": f" per {comparison['currency']}",
    }
    rows = []
    for name in base:
        unit = units.get(name.partition("_per_")[2])
        if unit is not None and base[name] is not None and new.get(name) is not None:
            work = name.partition("_per_")[0]
            rows.append(_row(f"{work}{unit}", base[name], new[name], ""))
    for name in base["slis"]:
        base_sli, new_sli = base["slis"][name], new["slis"].get(name, {})
        if base_sli["value"] is not None and new_sli.get("value") is not None:
            rows.append(_row(name, base_sli["value"], new_sli["value"], base_sli["unit"]))
    for kind in sorted({*base["incidents"], *new["incidents"]}):
        counts = [run["incidents"].get(kind, 0) for run in (base, new)]
        rows.append([f"incidents: {kind}", *map(str, counts), f"{counts[1] - counts[0]:+d}"])
    return text.table(["", "before", "after", "change"], rows, "")


def _row(name: str, base: float, new: float, unit: str) -> list[str]:
    change = f"{new / base - 1:+.1%}" if base else ""
    if unit == "ratio":
        points = f"{(new - base) * 100:+.2f} points"
        return [name, text.share(base), text.share(new), points]
    quantity_unit = unit if unit in ("seconds", "times") else ""
    return [name, text.quantity(base, quantity_unit), text.quantity(new, quantity_unit), change]


def _shows(phase: Mapping[str, Any]) -> bool:
    return bool(max(phase["before"], phase["after"]) >= _LEAST_SECONDS)


def _phases(phases: Sequence[Mapping[str, Any]], steps: Sequence[int]) -> str:
    rows = [
        [
            phase["phase"].replace("_", "-"),
            text.quantity(phase["before"], "seconds"),
            text.quantity(phase["after"], "seconds"),
            f"{(phase['after'] - phase['before']) * 1e3:+.1f} ms",
        ]
        for phase in phases
    ]
    shown = text.table(["a step, mean of ranks", "before", "after", "change"], rows, "")
    return f"{shown}\nof the newest {steps[0]} and {steps[1]} steps without saves and evaluation"


def _changes(comparison: Mapping[str, Any]) -> str:
    if not comparison["are_described"]:
        return "changes: unknown, as a run has no recorded facts"
    if not comparison["changes"]:
        return "changes: none in the recorded facts (configuration, code, data, environment)"
    rows = [
        [change["name"], *(_cut(change[side]) for side in ("before", "after"))]
        for change in comparison["changes"][:_MOST_CHANGES]
    ]
    shown = text.table(["what changed", "before", "after"], rows, "", left_columns=3)
    hidden_count = len(comparison["changes"]) - _MOST_CHANGES
    return f"{shown}\n{hidden_count} more; --json has all of them" if hidden_count > 0 else shown


def _cut(value: str | None) -> str:
    if value is None:
        return "-"
    return value if len(value) <= _WIDEST else f"{value[: _WIDEST - 3]}..."
