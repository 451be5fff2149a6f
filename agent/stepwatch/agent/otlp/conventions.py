"""Names of OpenTelemetry's semantic conventions for fields of readings, from `conventions.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

GAUGE, COUNTER, UP_DOWN_COUNTER = "gauge", "counter", "updowncounter"


class Convention(NamedTuple):
    """A metric `name` that is sent for a `field` of a record, with these attributes.

    `of` is `device`, `host`, `network` (a card) or `interface` (any of the kernel's).
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
        """What is sent for a value of the field."""
        return 1.0 - reading if self.complement else reading * self.factor


def _document() -> dict[str, Any]:
    file = resources.files(__package__) / "conventions.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


_DOCUMENT = _document()
CONVENTIONS: tuple[Convention, ...] = tuple(Convention(**entry) for entry in _DOCUMENT["metric"])
STATUS_TYPES: Mapping[str, str] = {
    fact: kind for kind, facts in _DOCUMENT["status"].items() for fact in facts
}
"""`hw.type` of what a fact with this name is about."""
