"""Owners of jobs for reports, from the job itself or from the site file. Pure.

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
"""Maximum characters per field."""


class OwnerRule(NamedTuple):
    """A pattern `jobs` for job names, and the owner of matching jobs: some of `FIELDS`."""

    jobs: str
    owner: Mapping[str, str]


def said_of(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the `FIELDS` in a run's facts."""
    return {name: facts[f"owner.{name}"] for name in FIELDS if facts.get(f"owner.{name}")}


def owner_in(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the `FIELDS` stored with a day's account."""
    owner = document.get("owner")
    return (
        said_of({f"owner.{name}": str(text) for name, text in owner.items()})
        if isinstance(owner, dict)
        else {}
    )


def owner_of(job: str, declared: Mapping[str, str], rules: Iterable[OwnerRule]) -> dict[str, str]:
    """Return a job's owner `FIELDS`.

    A field that its run has `declared` wins; else the first matching rule that names it.
    """
    owner = {name: declared.get(name, "") for name in FIELDS}
    for rule in rules:
        if fnmatchcase(job, rule.jobs):
            for name, text in rule.owner.items():
                owner[name] = owner[name] or text
    return {name: text[:_MOST] for name, text in owner.items() if text}
