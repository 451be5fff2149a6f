"""The Alertmanager configuration for a site file, and its templates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from importlib import resources
from typing import Any

from stepwatch.alerts.rules import yaml_text
from stepwatch.alerts.spec import Severity
from stepwatch.collector.slo.asked.site_schema import Owner
from stepwatch.signals.errors import UsageError
from stepwatch.signals.names import ALERT_WATCHDOG, JOB, JOB_CLASS, NODE, SEVERITY

from . import inhibition, receivers, schedules
from .site import Site
from .site_schema import Alerting, Route

CONFIG_FILE = "alertmanager.yaml"
TEMPLATE_FILE = "stepwatch.tmpl"
DEAD_MAN = "stepwatch-dead-man"
"""Receiver for the alert that always fires; it gets no notification about an alert's end."""

GROUP_BY = (JOB, NODE, "alertname")
"""One notification per job and cause (per node for alerts without a job), and per value of the
site's own labels: jobs in two clusters may share a name."""

_PAGE = {"group_wait": "1s", "group_interval": "1m", "repeat_interval": "4h"}
"""A page waits only for pages from the same evaluation, which Prometheus sends together: half are
due within 15 s."""
_TICKET = {"group_wait": "30s", "group_interval": "5m", "repeat_interval": "24h"}
_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000}
_ON_A_JOB = f'{JOB}!=""'
"""The pattern `*` also matches alerts without a job: no team may receive or mute those."""
_NOTE = "# Written by `stepwatch build routes`; edit the site file and build again.\n"


def config_text(site: Site, source: str) -> str:
    """Return the configuration text; `source` is the site file named in errors.

    Raises:
        UsageError: the site names no receivers.
    """
    alerting = site.alerting
    if alerting is None:
        raise UsageError(f"{source}:1: alerting: is missing; name the receivers of alerts")
    document = {
        "templates": [TEMPLATE_FILE],
        "route": {
            "receiver": alerting.default.page,
            "group_by": [*GROUP_BY, *alerting.labels],
            **_PAGE,
            "routes": [_dead_man(alerting), *_routes(site, alerting), *_default(alerting)],
        },
        "inhibit_rules": inhibition.inhibit_rules(alerting.labels),
        "receivers": _receivers(alerting),
        "time_intervals": [
            schedules.intervals(name, schedule) for name, schedule in alerting.schedules.items()
        ],
    }
    return yaml_text(document, _NOTE)


def template_text() -> str:
    """Return the text of the configuration's templates."""
    return resources.files(__package__).joinpath(TEMPLATE_FILE).read_text(encoding="utf-8")


def _receivers(alerting: Alerting) -> list[dict[str, Any]]:
    declared = alerting.receivers
    entries = [
        receivers.receiver(name, declaration, alerting, resolved=True)
        for name, declaration in declared.items()
    ]
    heartbeat = declared[alerting.dead_man.receiver]
    return [*entries, receivers.receiver(DEAD_MAN, heartbeat, alerting, resolved=False)]


def _dead_man(alerting: Alerting) -> dict[str, Any]:
    every = alerting.dead_man.every
    return {
        "matchers": [f'alertname="{ALERT_WATCHDOG}"'],
        "receiver": DEAD_MAN,
        "group_by": ["alertname"],
        "group_wait": "0s",
        # Alertmanager repeats at the first group interval after `repeat_interval` has passed since
        # the last send, which itself took time. With equal intervals every second one would be
        # skipped.
        "group_interval": every,
        "repeat_interval": f"{int(every[:-1]) * _MILLISECONDS[every[-1]] // 2}ms",
    }


def _default(alerting: Alerting) -> list[dict[str, Any]]:
    return [_child(Severity.TICKET, alerting.default.ticket, ())]


def _routes(site: Site, alerting: Alerting) -> Iterator[dict[str, Any]]:
    for route in alerting.routes:
        for team_matchers in _jobs_of_team(route, site.owners):
            yield {
                "matchers": [
                    _ON_A_JOB,
                    *team_matchers,
                    *_fits(JOB, map(pattern, route.jobs)),
                    *_classes(route),
                ],
                "receiver": alerting.default.page,
                "routes": list(_children(route, alerting)),
            }


def _children(route: Route, alerting: Alerting) -> Iterator[dict[str, Any]]:
    """Yield a route for pages and one for tickets, each with the default receiver if unset."""
    page = route.page or alerting.default.page
    yield _child(Severity.PAGE, page, route.mute_pages)
    yield _child(Severity.TICKET, route.ticket or alerting.default.ticket, route.mute)


def _child(severity: Severity, receiver: str, mute: Collection[str]) -> dict[str, Any]:
    child: dict[str, Any] = {
        "matchers": [f'{SEVERITY}="{severity.value}"'],
        "receiver": receiver,
        **(_PAGE if severity is Severity.PAGE else _TICKET),
    }
    return {**child, "mute_time_intervals": list(mute)} if mute else child


def _classes(route: Route) -> list[str]:
    return _fits(JOB_CLASS, map(re.escape, route.classes))


def _jobs_of_team(route: Route, owners: Sequence[Owner]) -> Iterator[list[str]]:
    """Yield a team's job matchers, one list per owner rule.

    The first rule that matches a job and names a team sets the job's team.
    """
    if route.team is None:
        yield []
        return
    earlier_patterns: list[str] = []
    for owner in owners:
        if owner.team == route.team:
            yield [*_fits(JOB, [pattern(owner.jobs)]), *_fits(JOB, earlier_patterns, sign="!~")]
        elif owner.team:
            earlier_patterns.append(pattern(owner.jobs))


def _fits(label: str, patterns: Collection[str] | Iterator[str], sign: str = "=~") -> list[str]:
    expression = "|".join(patterns)
    quoted = expression.replace("\\", "\\\\").replace('"', '\\"')
    return [f'{label}{sign}"{quoted}"'] if expression else []


def pattern(shell: str) -> str:
    """Convert a name pattern, such as `llama-*`, to a Prometheus regular expression (RE2)."""
    expression = ""
    for part in re.findall(r"\[[^\]]+\]|.", shell):
        if part in "*?":
            expression += {"*": ".*", "?": "."}[part]
        elif len(part) > 1:
            expression += part.replace("[!", "[^", 1).replace("\\", "\\\\")
        else:
            expression += re.escape(part)
    return expression
