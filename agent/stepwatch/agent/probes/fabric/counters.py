"""Which counters of a port are errors, and how many of them are too many (`counters.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple


class Limit(NamedTuple):
    """More of this counter in a minute are a fault; `because` says where the number comes from."""

    a_minute: int
    because: str


def _load() -> Mapping[str, Limit]:
    text = resources.files(__package__).joinpath("counters.toml").read_text(encoding="utf-8")
    return {
        item["name"]: Limit(item["a_minute"], item["because"])
        for item in tomllib.loads(text)["counter"]
    }


LIMITS = _load()
COUNTERS = tuple(LIMITS)
"""Names of the files that are read."""
