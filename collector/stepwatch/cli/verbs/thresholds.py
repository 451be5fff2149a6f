"""`stepwatch thresholds`: the detectors' thresholds, with unit, reason and a site's changes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from stepwatch.cli import text
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint

EXAMPLE = "stepwatch thresholds straggler --site site.yaml --class research"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("detector", nargs="?", help="one detector (default: all)")
    parser.add_argument(
        "--site", type=Path, metavar="FILE", help="the site file, for its changes of thresholds"
    )
    parser.add_argument(
        "--class", dest="job_class", metavar="NAME", help="the values for this job class"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the thresholds.

    Raises:
        UsageError: there is no such detector, or a class is named without a site file.
        ConfigurationError: the site file cannot be read or is wrong.
    """
    if arguments.job_class is not None and arguments.site is None:
        raise UsageError("a site file changes thresholds for a class; pass --site FILE")
    rows = _rows(arguments.site, arguments.job_class)
    if arguments.detector is not None:
        detectors = list(dict.fromkeys(row["detector"] for row in rows))
        if arguments.detector not in detectors:
            hint = closest_hint(arguments.detector, detectors)
            raise UsageError(f"no detector {arguments.detector[:63]!r} with thresholds; {hint}")
        rows = [row for row in rows if row["detector"] == arguments.detector]
    print(json.dumps(rows, indent=1) if arguments.json else listing(rows))
    return 0


def _rows(site: Path | None, job_class: str | None) -> list[dict[str, Any]]:
    """Return one row per threshold; `value` is the one for `job_class`, or the shipped one."""
    from stepwatch.collector.detect.thresholds import read_changes, reasons, shipped_thresholds

    changes = [] if site is None else read_changes(site, job_class)
    rows = []
    for detector, limits in shipped_thresholds().items():
        for name, reason in reasons(limits).items():
            shipped = getattr(limits, name)
            changed = [
                {"class": change.job_class, "value": change.value, "place": f"{site}:{change.line}"}
                for change in changes
                if (change.detector, change.field) == (detector, name)
            ]
            row = {"detector": detector, "threshold": name, "value": shipped, "unit": reason.unit}
            if changed and job_class is not None:
                row["value"] = changed[0]["value"]
            rows.append({**row, "shipped": shipped, "changes": changed, "reason": reason.text})
    return rows


def listing(rows: list[dict[str, Any]]) -> str:
    """Return the thresholds by detector, wrapped for a terminal with 80 columns."""
    lines, detector = list[str](), ""
    for row in rows:
        if row["detector"] != detector:
            detector = row["detector"]
            lines += [""] if lines else []
            lines.append(detector)
        lines.append(f"  {row['threshold']} = {_value(row['value'])}  ({row['unit']})")
        for change in row["changes"]:
            words = f"{_value(change['value'])} for class {change['class']} in {change['place']}"
            lines.append(text.wrapped(f"{words}; shipped: {_value(row['shipped'])}", "      "))
        lines.append(text.wrapped(row["reason"], "      "))
    return "\n".join(lines)


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
