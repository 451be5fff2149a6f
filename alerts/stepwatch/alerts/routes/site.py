"""Reads a site file's alert settings: paging classes, owners, receivers, routes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from stepwatch.alerts.expressions import UNKNOWN_CLASS
from stepwatch.alerts.rules import USUAL, Classes
from stepwatch.collector.detect.thresholds import threshold_problems
from stepwatch.collector.slo.asked import site_schema as shared
from stepwatch.collector.slo.asked.class_slos import class_problems, slo_names
from stepwatch.collector.slo.asked.problems import Hints, refuse, validated
from stepwatch.collector.slo.asked.yaml_lines import Place
from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.signals.names import JOB, JOB_CLASS, NODE, SEVERITY
from stepwatch.signals.phrases import closest_hint, file_problem

from . import schedules
from .site_schema import KEYS, REMEDIES, Alerting, Route

CLASSES = ("production", "research", "experiment", "trial")
"""Default classes, if the site file names none."""
PAGED = USUAL.paged
_HINTS = Hints({**shared.REMEDIES, **REMEDIES}, sorted({*shared.KEYS, *KEYS}))
_RESERVED = ("alertname", "job", "instance", JOB, JOB_CLASS, NODE, SEVERITY)


class Site(NamedTuple):
    """A site's alert settings; `alerting` is None if the file has no such section."""

    paged: tuple[str, ...] = PAGED
    owners: tuple[shared.Owner, ...] = ()
    alerting: Alerting | None = None

    @property
    def classes(self) -> Classes:
        """The settings for its rules."""
        return Classes(self.paged, {} if self.alerting is None else self.alerting.labels)


class _SiteDocument(shared.SiteDocument):
    """A site file including its `alerting` section."""

    alerting: Alerting | None = Field(default=None)


def read_site(path: Path, slos: Path | None = None) -> Site:
    """Read a site file whose classes name SLOs in the folder `slos`, or shipped SLOs.

    Raises:
        UsageError: it cannot be read or is wrong; one line per problem: file, line, key, remedy.
    """
    try:
        return parse_site(path.read_text(encoding="utf-8"), str(path), slos)
    except OSError as error:
        why = f"{path}: cannot be read: {file_problem(error)}; pass --site FILE"
        raise UsageError(why) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: cannot be read: it is not UTF-8 text; pass --site FILE"
        ) from error


def parse_site(text: str, source: str, slos: Path | None = None) -> Site:
    """Parse `text` as a site file; errors name `source`, and `slos` is as in `read_site`.

    Raises:
        UsageError: as in `read_site`.
    """
    try:
        document, site = validated(_SiteDocument, text, source, _HINTS)
        refuse(class_problems(site, slo_names(slos)), document, source)
        refuse(threshold_problems(site), document, source)
        refuse(_named(site), document, source)
    except ConfigurationError as error:
        raise UsageError(str(error)) from error
    return Site(_paged(site), tuple(site.owners), site.alerting)


def _paged(site: _SiteDocument) -> tuple[str, ...]:
    chosen = {
        name: job_class.pages
        for name, job_class in site.classes.items()
        if job_class.pages is not None
    }
    usual = {name: True for name in PAGED}
    return tuple(name for name, pages in {**usual, **chosen}.items() if pages)


def _named(site: _SiteDocument) -> Iterator[tuple[Place, str]]:
    """Return the problems with their places' names."""
    return (
        (place, f"{'.'.join(map(str, place))}: {problem}") for place, problem in _problems(site)
    )


def _problems(site: _SiteDocument) -> Iterator[tuple[Place, str]]:
    """Yield problems in a site file with valid structure: places and remedies."""
    if site.alerting is None:
        return
    for place, problem in (
        *_labels(site.alerting),
        *_targets(site.alerting),
        *_schedules(site.alerting),
        *_routes(site.alerting, site),
        *_receivers(site.alerting),
    ):
        yield ("alerting", *place), problem


def _labels(alerting: Alerting) -> Iterator[tuple[Place, str]]:
    for name, value in alerting.labels.items():
        if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) is None or name.startswith("__"):
            problem = "it is not a name of a label; write letters, digits and _, a letter first"
            yield ("labels", name), problem
        elif name in _RESERVED:
            yield ("labels", name), "alerts have this label already; write another name"
        elif not value or "{{" in value or not value.isprintable():
            yield ("labels", name), "write its value as plain text"


def _targets(alerting: Alerting) -> Iterator[tuple[Place, str]]:
    for name, receiver in alerting.receivers.items():
        hook = receiver.webhook
        if hook is not None and hook.url_file is not None and not alerting.at_least("0.26"):
            problem = (
                f"Alertmanager {alerting.target} reads no address from a file; write "
                'target: "0.26" where yours is, or url with credentials_file'
            )
            yield ("receivers", name, "webhook", "url_file"), problem


def _schedules(alerting: Alerting) -> Iterator[tuple[Place, str]]:
    for name, schedule in alerting.schedules.items():
        for place, problem in schedules.problems(name, schedule):
            yield ("schedules", name, *place), problem


def _routes(alerting: Alerting, site: _SiteDocument) -> Iterator[tuple[Place, str]]:
    classes = {*CLASSES, UNKNOWN_CLASS, *site.classes}
    teams = {owner.team for owner in site.owners if owner.team}
    for number, route in enumerate(alerting.routes):
        place: Place = ("routes", number)
        if route.page is None and route.ticket is None:
            yield place, "it has no receiver; give it page, ticket or both"
        if route.team is not None and route.team not in teams:
            problem = (
                f"no owner has the team {route.team[:80]!r}; {closest_hint(route.team, teams)}"
            )
            yield (*place, "team"), f"{problem}; name it under owners"
        yield from _unknown((*place, "classes"), "class", route.classes, classes)
        for key, names in (("mute", route.mute), ("mute_pages", route.mute_pages)):
            unknown = list(_unknown((*place, key), "schedule", names, alerting.schedules))
            yield from unknown
            if not unknown:
                yield from _never_ending((*place, key), names, alerting)
        for earlier, earlier_route in enumerate(alerting.routes[:number]):
            if _takes_all(earlier_route, route):
                yield (
                    place,
                    f"no alert reaches it: route {earlier} takes them all; change the order",
                )
                break


def _never_ending(
    place: Place, names: Collection[str], alerting: Alerting
) -> Iterator[tuple[Place, str]]:
    muting = [alerting.schedules[name] for name in names]
    wrong = any(True for schedule in muting for _ in schedules.problems("", schedule))
    if len(muting) > 1 and not wrong and schedules.never_end(muting):
        problem = f"{', '.join(names)} together leave no hour out and mute all notifications"
        yield place, f"{problem}; leave one out"


def _unknown(
    place: Place, noun: str, names: Collection[str], declared: Collection[str]
) -> Iterator[tuple[Place, str]]:
    for name in names:
        if name not in declared:
            hint = closest_hint(name, declared) or "declare it"
            yield place, f"there is no {noun} {name[:80]!r}; {hint}"


def _takes_all(earlier: Route, route: Route) -> bool:
    """Return whether every alert that matches `route` also matches `earlier`."""
    return (
        earlier.team in (None, route.team)
        and (
            not earlier.classes or (bool(route.classes) and {*route.classes} <= {*earlier.classes})
        )
        and (not earlier.jobs or (bool(route.jobs) and {*route.jobs} <= {*earlier.jobs}))
    )


def _receivers(alerting: Alerting) -> Iterator[tuple[Place, str]]:
    """Yield receivers that are named but missing, and receivers without a route."""
    named: list[tuple[Place, str | None]] = [
        (("default", "page"), alerting.default.page),
        (("default", "ticket"), alerting.default.ticket),
        (("dead_man", "receiver"), alerting.dead_man.receiver),
    ]
    for number, route in enumerate(alerting.routes):
        named += [(("routes", number, "page"), route.page)]
        named += [(("routes", number, "ticket"), route.ticket)]
    for place, name in named:
        if name is not None:
            yield from _unknown(place, "receiver", [name], alerting.receivers)
    used = {name for _, name in named}
    for name in alerting.receivers:
        if name not in used:
            yield ("receivers", name), "nothing is routed to it; name it in a route or leave it out"
