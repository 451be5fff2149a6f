"""OpenTelemetry's semantic convention names for record fields, from `conventions.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Convention(NamedTuple):
    """The metric `name` for a record's `field`, with its attributes.

    `of` is `device`, `host`, `network` (a card) or `interface` (any kernel interface).
    """

    name: str
    of: str
    field: str
    instrument: str
    unit: str
    attributes: Mapping[str, str] = {}
    factor: float = 1.0
    complement: bool = False

    def value_of(self, reading: float) -> float:
        """Return the exported value for a field's value."""
        return 1.0 - reading if self.complement else reading * self.factor


def _document() -> dict[str, Any]:
    file = Path(__file__).with_name("conventions.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


_DOCUMENT = _document()
CONVENTIONS: tuple[Convention, ...] = tuple(Convention(**entry) for entry in _DOCUMENT["metric"])
STATUS_TYPES: Mapping[str, str] = {
    fact: kind for kind, facts in _DOCUMENT["status"].items() for fact in facts
}
"""`hw.type` for a fact, by fact name."""
