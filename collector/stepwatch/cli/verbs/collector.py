"""`stepwatch collector`: receive segments, evaluate jobs, show them."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from stepwatch import runbooks
from stepwatch.cli.access import options as access
from stepwatch.cli.access import otlp
from stepwatch.cli.store import options
from stepwatch.cli.terminal import add_log_argument, start_log
from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from stepwatch.collector.runtime.paging.receivers import Receiver
    from stepwatch.collector.runtime.service import Service
    from stepwatch.collector.slo.asked.site import Objectives
    from stepwatch.collector.web.otlp.export import JobMetricsSender

EXAMPLE = "stepwatch collector --store /var/lib/stepwatch/store.db --port 8480"
_RESTORE_SECONDS = 1.0
"""Restores before the first answer, about 50 jobs: agents and pages do not wait for the others."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--store",
        default="stepwatch.db",
        help="SQLite file, or postgresql+psycopg://USER@HOST/NAME",
    )
    parser.add_argument("--host", default="127.0.0.1", help="beyond loopback needs token files")
    parser.add_argument(
        "--port", type=int, default=places.DEFAULT_COLLECTOR_PORT, help="0: any free one"
    )
    access.add_arguments(parser)
    parser.add_argument(
        "--interval", type=interval_seconds, default=1.0, help="seconds between evaluations"
    )
    parser.add_argument(
        "--receivers",
        type=Path,
        metavar="FILE",
        help="receivers of pages: PagerDuty, Slack, webhooks, Alertmanager; TOML",
    )
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help=f"send job metrics and incidents to this OTLP/HTTP receiver [{otlp.VARIABLE}]",
    )
    parser.add_argument(
        "--slo", type=Path, metavar="DIR", help="SLO documents, *.yaml; SIGHUP reads them again"
    )
    parser.add_argument(
        "--site", type=Path, metavar="FILE", help="SLOs of job classes and planned work, as YAML"
    )
    parser.add_argument(
        "--rates",
        type=Path,
        default=os.environ.get(places.ENV_RATES) or None,
        metavar="FILE",
        help=f"rate card in TOML: the prices of incidents and tokens [{places.ENV_RATES}]",
    )
    options.add_keep_arguments(parser)
    options.add_compaction_argument(parser)
    add_log_argument(parser)


def interval_seconds(text: str) -> float:
    """Parse the time between evaluations.

    Raises:
        ArgumentTypeError: it is not a number from a tenth of a second to an hour.
    """
    seconds = options.number_in(text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} must be from 0.1 to 3600 seconds")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C."""
    from stepwatch.collector.runtime.notifier import Notifiers
    from stepwatch.collector.runtime.paging.configuration import read_receivers
    from stepwatch.collector.runtime.service import Service
    from stepwatch.collector.store import shown
    from stepwatch.collector.web import server

    start_log("collector", form=arguments.log_format)
    signal.signal(signal.SIGTERM, _leave)
    tokens = access.tokens_of(arguments)
    certificate = access.certificate_of(arguments)
    objective_files = arguments.slo, arguments.site, arguments.rates and Path(arguments.rates)
    objectives = _asked(*objective_files)
    receivers = read_receivers(arguments.receivers) if arguments.receivers else []
    receivers += _incident_log(otlp.checked_endpoint(arguments.otlp), receivers)
    opened = places.listen(
        arguments.host, arguments.port, tokens is not None, "--ingest-token-file and its like"
    )
    with opened:
        opened_store = server.open_store(arguments.store)
        service = Service(
            opened_store,
            leases=server.leases_of(opened_store),
            notifier=Notifiers(opened_store.outbox, receivers) if receivers else None,
            objectives=objectives,
            restore_seconds=_RESTORE_SECONDS,
        )
        signal.signal(signal.SIGHUP, lambda *_: read_again(service, *objective_files))
        host, port = opened.getsockname()[:2]
        place = shown(arguments.store)
        scheme = "http" if certificate is None else "https"
        logging.info("listening on %s://%s:%s, store %s", scheme, host, port, place)
        access.warn_of_plain(arguments.host, certificate)
        server.serve(
            service,
            opened,
            arguments.interval,
            tokens=tokens,
            certificate=certificate,
            runbook=runbooks.render,
            keep=options.keep_of(arguments),
            compaction=options.compaction_of(arguments),
            payloads=options.payloads_of(service.store, arguments),
            names=arguments.public_host,
            otlp=_job_metrics(service, arguments.otlp),
        )
    return 0


def _incident_log(endpoint: str | None, receivers: Sequence[Receiver]) -> list[Receiver]:
    """Return the receiver of incidents over OTLP, if there is one.

    Raises:
        ConfigurationError: a named endpoint cannot be used.
    """
    if not otlp.is_sent(endpoint, "LOGS"):
        return []
    try:
        from stepwatch.collector.runtime.paging.otlp_logs import NAME, from_environment
    except ConfigurationError as error:
        otlp.skip(endpoint, "incidents", error)
        return []
    if NAME in (receiver.name for receiver in receivers):
        raise UsageError(f"--otlp: the file of receivers has its own {NAME!r}; name it otherwise")
    links = [receiver.links for receiver in receivers]
    return [from_environment(endpoint, *links[:1])]


def _job_metrics(service: Service, endpoint: str | None) -> JobMetricsSender | None:
    """Return the sender of job metrics over OTLP, if there is one.

    Raises:
        ConfigurationError: a named endpoint cannot be used.
    """
    if not otlp.is_sent(endpoint, "METRICS"):
        return None
    try:
        from stepwatch.collector.web.otlp.export import JobMetricsSender
    except ConfigurationError as error:
        otlp.skip(endpoint, "job metrics", error)
        return None
    return JobMetricsSender(service, endpoint)


def _asked(folder: Path | None, site: Path | None, rates: Path | None) -> Objectives:
    """Return the objectives of the jobs, with the site file's thresholds.

    Raises:
        ConfigurationError: a file cannot be read or is wrong.
    """
    from stepwatch.collector.detect.thresholds import read_thresholds
    from stepwatch.collector.slo.asked.site import read_objectives

    objectives = read_objectives(folder, site, rates)
    return objectives._replace(thresholds=read_thresholds(site))


def read_again(
    service: Service, folder: Path | None, site: Path | None, rates: Path | None
) -> None:
    """Read the SLO documents, the site file and the rate card again.

    An invalid file changes nothing; the log and /metrics report it.
    """
    from stepwatch.collector.state.live import CONTAINED

    try:
        service.site_objectives.replace(_asked(folder, site, rates))
    except ConfigurationError as error:
        logging.error("the previous objectives stay in force: %s", error)
        service.site_objectives.replace(None)
    except CONTAINED:  # in a signal handler it would end the collector
        logging.exception("the previous objectives stay in force: a defect of stepwatch")
        service.site_objectives.replace(None)
    else:
        logging.info("read the objectives again")


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit with code 0: SIGTERM stops a collector normally."""
    sys.exit(0)
