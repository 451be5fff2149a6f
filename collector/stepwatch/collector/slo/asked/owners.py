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
from typing import Any, NamedTuple

FIELDS = ("project", "team", "cost_centre")
_MOST = 64
"""Characters of each."""


class OwnerRule(NamedTuple):
    """Jobs whose names fit the pattern `jobs`, and what is said of them: some of `FIELDS`."""

    jobs: str
    owner: Mapping[str, str]


def said_of(facts: Mapping[str, str]) -> dict[str, str]:
    """Those of `FIELDS` that the facts of a run say."""
    return {name: facts[f"owner.{name}"] for name in FIELDS if facts.get(f"owner.{name}")}


def owner_in(document: Mapping[str, Any]) -> dict[str, str]:
    """Those of `FIELDS` that the account of a day was stored with."""
    owner = document.get("owner")
    return (
        said_of({f"owner.{name}": str(text) for name, text in owner.items()})
        if isinstance(owner, dict)
        else {}
    )


def owner_of(job: str, declared: Mapping[str, str], rules: Iterable[OwnerRule]) -> dict[str, str]:
    """The known `FIELDS` of a job.

    A field that its run has `declared` wins; else the first matching rule that names it.
    """
    owner = {name: declared.get(name, "") for name in FIELDS}
    for rule in rules:
        if fnmatchcase(job, rule.jobs):
            for name, text in rule.owner.items():
                owner[name] = owner[name] or text
    return {name: text[:_MOST] for name, text in owner.items() if text}
