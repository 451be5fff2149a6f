"""Port error counters and their limits (`counters.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Limit(NamedTuple):
    """A counter's limit per minute; `because` names the source."""

    a_minute: int
    because: str


def _load() -> Mapping[str, Limit]:
    text = Path(__file__).with_name("counters.toml").read_text(encoding="utf-8")
    return {
        item["name"]: Limit(item["a_minute"], item["because"])
        for item in tomllib.loads(text)["counter"]
    }


LIMITS = _load()
COUNTERS = tuple(LIMITS)
"""Names of the counter files."""
