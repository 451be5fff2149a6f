"""The minimum cost at which a finding opens an incident (`cost.toml`). Pure."""

from __future__ import annotations

import math
import tomllib
from importlib import resources
from typing import NamedTuple

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.incidents.grouping import Group
from stepwatch.signals.names import Cause, FindingKind


class Floor(NamedTuple):
    """Minimum cost for `kinds`, to open an incident and to keep one open; see `cost.toml`."""

    kinds: frozenset[FindingKind]
    least_lost_ratio: float
    kept_lost_ratio: float
    informing_kinds: frozenset[FindingKind]
    informing_lost_ratio: float
    informing_kept_ratio: float
    informing_causes: frozenset[Cause]
    kept_as_opened: frozenset[FindingKind]

    def least(self, kind: FindingKind, *, is_open: bool) -> float:
        """Return the minimum cost for a kind; 0 if the kind is not only about slowness."""
        if kind in self.informing_kinds:
            return self.informing_kept_ratio if is_open else self.informing_lost_ratio
        if kind not in self.kinds:
            return 0.0
        return self.kept_lost_ratio if is_open else self.least_lost_ratio

    def informs(self, finding: Finding) -> bool:
        """Return whether it informs and raises no alert: by its cause, or by its small cost."""
        if finding.cause in self.informing_causes:
            return True
        return finding.kind in self.kinds and finding.lost_ratio < self.least_lost_ratio


def _load() -> Floor:
    text = resources.files(__package__).joinpath("cost.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    lists = {
        name: frozenset(map(Cause if name == "informing_causes" else FindingKind, values))
        for name, values in document.items()
        if isinstance(values, list)
    }
    return Floor(**{**document, **lists})


FLOOR = _load()
"""The shipped floor."""


def costs_enough(group: Group, *, is_open: bool, floor: Floor = FLOOR) -> bool:
    """Return whether a cause and its symptoms justify an incident; with an unknown cost they do."""
    return any(
        math.isnan(finding.lost_ratio)
        or finding.kind not in floor.kinds
        or finding.lost_ratio >= floor.least(finding.kind, is_open=is_open)
        for finding in (group.cause, *group.symptoms)
    )
