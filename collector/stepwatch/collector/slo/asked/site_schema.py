"""The shape of a site file. Only `stepwatch build` reads the section `alerting`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from stepwatch.collector.slo.asked.openslo_schema import Strict
from stepwatch.collector.slo.asked.owners import FIELDS

REMEDIES = {
    "classes": "write a class with its slos, such as production: {slos: [goodput]}",
    "classes.slos": "write a list of names of SLOs, [] for none",
    "classes.pages": "write true or false",
    "classes.thresholds": "write detectors with thresholds, such as straggler: {least_ratio: 2.0}",
    "classes.profile_incidents": "write a list of incidents, such as [straggler, launch-bound]",
    "maintenance": "write a list of from, until and why",
    "maintenance.from": "write a moment, such as 2026-11-20T08:00:00Z",
    "maintenance.until": "write a moment, such as 2026-11-20T10:00:00Z",
    "maintenance.why": "write the work done",
    "owners": "write a list of jobs with their project, team or cost_centre",
    "owners.jobs": "write the name of a job, or a pattern such as llama-*",
}
"""Remedies for mistakes by place."""

OTHERS = "*"
"""In a site file: all classes that it does not name."""
KEYS = (
    *(
        "classes",
        "maintenance",
        "slos",
        "thresholds",
        "pages",
        "profile_incidents",
        "from",
        "until",
        "why",
        "owners",
        "jobs",
    ),
    *("alerting", *FIELDS),
)
"""All keys that a user may have meant."""


class SiteClass(Strict):
    """SLOs and detectors' thresholds for a job class, and whether its urgent alerts page.

    Without `pages`, only the class production pages. `detect.thresholds` validates `thresholds`.
    `profile_incidents` are kinds or causes: the slow rank of such an incident is profiled when it
    opens.
    """

    slos: list[str]
    thresholds: dict[str, Any] = Field(default_factory=dict)
    pages: bool | None = None
    profile_incidents: list[str] = Field(default_factory=list)


class Maintenance(Strict):
    """Planned work."""

    from_: Annotated[Any, Field(alias="from")]
    until: Any
    why: str
    classes: list[str] | None = None


class Owner(Strict):
    """The owner of jobs whose names match the pattern `jobs`."""

    jobs: str
    project: str = ""
    team: str = ""
    cost_centre: str = ""


class SiteDocument(Strict):
    """A complete site file."""

    classes: dict[str, SiteClass] = Field(default_factory=dict)
    maintenance: list[Maintenance] = Field(default_factory=list)
    owners: list[Owner] = Field(default_factory=list)
    alerting: Any = None
