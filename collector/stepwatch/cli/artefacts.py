"""Generated files: `stepwatch build` writes them, `stepwatch check` compares with them.

Modules that need the extra `build` are imported where they are used, so that the options can be
declared without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from stepwatch.alerts.links import DEFAULT_GRAFANA, DEFAULT_RUNBOOKS, Links
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.places import DEFAULT_COLLECTOR

DASHBOARDS = "dashboards"
ALERT_RULES = "alerts"
ROUTES = "routes"
KINDS = (DASHBOARDS, ALERT_RULES, ROUTES)
"""Routes belong to one site: without a site file there are none."""

RUNBOOK_PAGES = "runbooks/pages"
_LANDMARK = "alerts/stepwatch/alerts/catalogue.py"


@dataclass(frozen=True)
class Artefact:
    """One generated file: its kind, file name and text."""

    kind: str
    name: str
    text: str

    @property
    def path(self) -> str:
        """Path of the file in a checkout."""
        return f"{generated(self.kind)}/{self.name}"


def generated(kind: str) -> str:
    """Return the checkout folder with the generated files of one kind."""
    return f"{kind}/generated"


def add_link_options(parser: argparse.ArgumentParser) -> None:
    """Declare the addresses that generated files name."""
    parser.add_argument(
        "--runbook-url",
        default=DEFAULT_RUNBOOKS,
        metavar="BASE",
        help="where runbooks are served; the alert's name is added (default: %(default)s)",
    )
    parser.add_argument(
        "--dashboard-url",
        default=DEFAULT_GRAFANA,
        metavar="BASE",
        help="address of Grafana (default: %(default)s)",
    )
    parser.add_argument(
        "--page-url",
        default=DEFAULT_COLLECTOR,
        metavar="URL",
        help="where browsers reach the collector (default: %(default)s)",
    )


def links_of(arguments: argparse.Namespace) -> Links:
    """Return the links that the options define."""
    from stepwatch.dashboards.boards import training_job

    grafana = str(arguments.dashboard_url).rstrip("/")
    address = f"{grafana}/d/{training_job.UID}"
    return Links(str(arguments.runbook_url), address, str(arguments.page_url))


def build(
    links: Links,
    kinds: Iterable[str] = KINDS,
    site: Path | None = None,
    slos: Path | None = None,
) -> list[Artefact]:
    """Build the artefacts of some kinds.

    The same links and site file give the same text. The site's classes name SLOs from the folder
    `slos`, or shipped ones.

    Raises:
        UsageError: the site file is wrong, or names no receiver for alerts.
    """
    makers: dict[str, Callable[[], list[Artefact]]] = {
        DASHBOARDS: lambda: _dashboards(links),
        ALERT_RULES: lambda: _alerts(links, site, slos),
        ROUTES: lambda: _routes(site, slos),
    }
    return [artefact for kind in kinds for artefact in makers[kind]()]


def _dashboards(links: Links) -> list[Artefact]:
    from stepwatch.alerts import thresholds as alert_thresholds
    from stepwatch.alerts.catalogue import ALERTS
    from stepwatch.alerts.spec import Severity
    from stepwatch.dashboards import finalise, registry
    from stepwatch.dashboards.queries import CHOSEN_JOB
    from stepwatch.dashboards.thresholds import Thresholds

    thresholds = Thresholds(
        slowdown_ratio=alert_thresholds.SLOWDOWN_RATIO,
        coverage_ratio=alert_thresholds.COVERAGE_RATIO,
        stalled_seconds=alert_thresholds.STALLED_SECONDS,
        stale_seconds=alert_thresholds.STALE_SECONDS,
        failed_checkpoints=alert_thresholds.FAILED_CHECKPOINTS,
        looping_attempts=alert_thresholds.LOOPING_ATTEMPTS,
        lag_seconds=alert_thresholds.LAG_SECONDS,
        page=links.page.rstrip("/"),
        runbooks={alert.name: links.runbook_of(alert.name, CHOSEN_JOB) for alert in ALERTS},
        paging=frozenset(alert.name for alert in ALERTS if alert.severity is Severity.PAGE),
    )
    return [
        Artefact(DASHBOARDS, board.FILE, finalise.text(board.build(thresholds)))
        for board in registry.boards()
    ]


def _routes(site: Path | None, slos: Path | None) -> list[Artefact]:
    if site is None:
        return []
    from stepwatch.alerts.routes import config
    from stepwatch.alerts.routes.site import read_site

    text = config.config_text(read_site(site, slos), str(site))
    return [
        Artefact(ROUTES, config.CONFIG_FILE, text),
        Artefact(ROUTES, config.TEMPLATE_FILE, config.template_text()),
    ]


def _alerts(links: Links, site: Path | None, slos: Path | None) -> list[Artefact]:
    from stepwatch.alerts import rules
    from stepwatch.alerts.catalogue import ALERTS
    from stepwatch.alerts.routes.site import read_site

    classes = rules.USUAL if site is None else read_site(site, slos).classes
    texts = {
        rules.RULES_FILE: rules.rules_text(ALERTS, links, classes),
        **rules.tests_texts(ALERTS, links, classes),
    }
    return [Artefact(ALERT_RULES, name, text) for name, text in texts.items()]


def checkout(start: Path) -> Path | None:
    """Return the root of the stepwatch checkout around `start`; None outside a checkout."""
    for folder in (start, *start.parents):
        if (folder / _LANDMARK).is_file():
            return folder
    return None


def write(path: Path, text: str) -> None:
    """Write a generated file atomically.

    Raises:
        ConfigurationError: the path cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, text.encode("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; see --out") from error
