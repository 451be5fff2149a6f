"""Who jobs are accounted to, for reports: as they say themselves, or as the site file says. Pure.

owners:
  - jobs: llama-*
    project: llama
    team: pretraining
    cost_centre: "4711"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

FIELDS = ("project", "team", "cost_centre")
_MOST = 64
"""Characters of each."""


class OwnerRule(NamedTuple):
    """Jobs whose names fit the pattern `jobs`, and what is said of them: some of `FIELDS`."""

    jobs: str
    said: Mapping[str, str]


def owner_of(job: str, facts: Mapping[str, str], rules: Iterable[OwnerRule]) -> dict[str, str]:
    """Those of `FIELDS` that are known of a job: from its `facts`, else from the first rule that
    fits it and says so."""
    found = {name: facts.get(f"owner.{name}", "") for name in FIELDS}
    for rule in rules:
        if fnmatchcase(job, rule.jobs):
            for name, text in rule.said.items():
                found[name] = found[name] or text
    return {name: text[:_MOST] for name, text in found.items() if text}
