"""How an agent runs, and what it is made of before it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from stepwatch.agent.otlp import OtlpOptions
from stepwatch.agent.probes.probe import DEFAULT_KERNEL_LOG
from stepwatch.agent.relay.client import connect
from stepwatch.agent.spool import DEFAULT_LIMIT_BYTES
from stepwatch.agent.traces.tracer import TraceOptions, Tracer
from stepwatch.signals import places
from stepwatch.signals.access import Access
from stepwatch.signals.clock import Clock
from stepwatch.signals.errors import ConfigurationError

if TYPE_CHECKING:
    from stepwatch.agent.otlp.export import MetricsExporter
    from stepwatch.agent.otlp.points import Point

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentOptions:
    """How an agent runs; `port` 0 takes a free one, None exports nothing.

    `page_url` is where people's browsers reach the collector, if not at `collector`. `kernel_log`
    is the node's, which a container has elsewhere. `access` says what is presented to the
    collector and trusted of it, `metrics_token` is what readers of `/metrics` present. `dcgm` is
    the URL of a dcgm-exporter, if any.
    """

    ring_dir: Path
    spool_dir: Path
    collector: str
    node: str
    port: int | None = 0
    access: Access = field(default_factory=Access)
    poll_seconds: float = 0.25
    flush_seconds: float = 1.0
    spool_limit_bytes: int = DEFAULT_LIMIT_BYTES
    traces: TraceOptions | None = None
    otlp: OtlpOptions | None = None
    page_url: str = ""
    kernel_log: Path = DEFAULT_KERNEL_LOG
    host: str = "127.0.0.1"
    metrics_token: str | None = None
    dcgm: str = ""

    @property
    def polls_per_flush(self) -> int:
        """A flush happens after so many polls, at least one."""
        return max(1, round(self.flush_seconds / self.poll_seconds))


def make_client(options: AgentOptions) -> httpx.Client:
    """Connections to the collector; a line of the log warns where they are not encrypted.

    Raises:
        ConfigurationError: its address is not a URL.
    """
    client = connect(options.collector, options.access)
    beyond = not places.is_loopback(client.base_url.host)
    if client.base_url.scheme == "http" and options.access.presents_token and beyond:
        logger.warning(
            "the token and all records cross the network unencrypted to %s; give the collector "
            "--tls-cert and --tls-key, and this agent --collector https://... and --ca",
            options.collector,
        )
    return client


def make_tracer(options: AgentOptions) -> Tracer | None:
    """What sends traces; None unless asked for.

    Raises:
        ConfigurationError: an endpoint was named and cannot be used.
    """
    wanted = options.traces
    if wanted is None:
        return None
    try:
        from stepwatch.agent.traces.export import Exporter  # the SDK costs memory: only if asked

        return Tracer(options.node, Exporter(wanted.endpoint), wanted.every)
    except ConfigurationError as error:
        if wanted.endpoint is not None:
            raise
        # The variables may be meant for others on this node.
        logger.warning("no traces: %s", error)
        return None


def make_metrics(
    options: AgentOptions, points: Callable[[], list[Point]], clock: Clock
) -> MetricsExporter | None:
    """What sends metrics over OTLP; None unless asked for.

    Raises:
        ConfigurationError: an endpoint was named and cannot be used.
    """
    wanted = options.otlp
    if wanted is None:
        return None
    try:
        from stepwatch.agent.otlp.export import MetricsExporter  # memory: only if asked

        return MetricsExporter(wanted.endpoint, options.node, points, clock, wanted.seconds)
    except ConfigurationError as error:
        if wanted.endpoint is not None:
            raise
        logger.warning("no metrics over OTLP: %s", error)
        return None
