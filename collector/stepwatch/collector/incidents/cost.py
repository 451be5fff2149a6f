"""What a finding must cost before it opens an incident (`cost.toml`). Pure."""

from __future__ import annotations

import math
import tomllib
from importlib import resources
from typing import NamedTuple

from stepwatch.collector.incidents.grouping import Group
from stepwatch.signals.names import FindingKind


class Floor(NamedTuple):
    """Least cost of `kinds`, to open an incident and to keep one open; see `cost.toml`."""

    kinds: frozenset[FindingKind]
    least_lost_ratio: float
    kept_lost_ratio: float


def _load() -> Floor:
    text = resources.files(__package__).joinpath("cost.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return Floor(**{**document, "kinds": frozenset(map(FindingKind, document["kinds"]))})


FLOOR = _load()
"""The shipped floor."""


def costs_enough(group: Group, *, is_open: bool, floor: Floor = FLOOR) -> bool:
    """Whether a cause and its symptoms are worth an incident; at an unknown cost they are."""
    least = floor.kept_lost_ratio if is_open else floor.least_lost_ratio
    return any(
        finding.kind not in floor.kinds
        or math.isnan(finding.lost_ratio)
        or finding.lost_ratio >= least
        for finding in (group.cause, *group.symptoms)
    )
