"""A check's findings, one line of JSON each: findings before a time limit are kept."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple


class Finding(NamedTuple):
    """`holds` is None where nothing was expected, or where it could not be measured."""

    what: str
    measured: str
    expected: str = ""
    holds: bool | None = None
    figures: Mapping[str, Any] = MappingProxyType({})
    """The same for programs, in base units."""

    def plain(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {**self._asdict(), "figures": dict(self.figures)}


def write(path: Path, findings: Iterable[Finding]) -> None:
    """Append each as it comes."""
    with open(path, "a", encoding="utf-8") as file:
        for finding in findings:
            print(json.dumps(finding.plain(), default=_plain), file=file, flush=True)


def read(path: Path) -> list[Finding]:
    """Return the findings in a file; none without the file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Finding(**json.loads(line)) for line in lines]


def is_within(share: float, tolerance: float) -> bool:
    """Return whether a share differs from 1 by at most `tolerance`; NaN does not."""
    return math.isfinite(share) and abs(share - 1.0) <= tolerance


def _plain(value: Any) -> Any:
    """Convert numbers of numpy and torch to JSON; anything else to text."""
    return value.item() if hasattr(value, "item") else str(value)
