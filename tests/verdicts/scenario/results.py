"""Results as lines of JSON in a file: a report continues where it ended, on any machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]


def read(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the results in these files, each scenario once; a missing file holds none.

    An incomplete line is left out.
    """
    results: dict[tuple[Any, ...], dict[str, Any]] = {}
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else []:
            if (result := _read_line(line)) is not None:
                results.setdefault(_key(result), result)
    return list(results.values())


def append(file: Path, result: dict[str, Any]) -> None:
    """Add a result."""
    with file.open("a+b") as lines:
        if lines.tell():
            lines.seek(-1, 2)
            if lines.read(1) != b"\n":  # the previous line is incomplete
                lines.write(b"\n")
        lines.write(json.dumps(result).encode() + b"\n")


def code_version() -> str:
    """Return the commit that runs, `+` after it if files differ; empty if it is unknown."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.strip()


def _read_line(line: str) -> dict[str, Any] | None:
    try:
        result = json.loads(line)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _key(result: dict[str, Any]) -> tuple[Any, ...]:
    wanted = result.get("wanted", {})
    return result.get("seed"), *(wanted.get(name) for name in ("kind", "healthy", "long"))
