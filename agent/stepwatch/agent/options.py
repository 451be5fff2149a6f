"""The agent's options and the components built from them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stepwatch.agent.checkpoints.jobs.options import CheckpointOptions
from stepwatch.agent.otlp import OtlpOptions
from stepwatch.agent.probes.probe import DEFAULT_KERNEL_LOG
from stepwatch.agent.relay.client import connect
from stepwatch.agent.spool import DEFAULT_LIMIT_BYTES
from stepwatch.agent.traces.tracer import TraceOptions, Tracer
from stepwatch.signals import places
from stepwatch.signals.access import Access
from stepwatch.signals.clock import Clock
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.http import Client

if TYPE_CHECKING:
    from stepwatch.agent.otlp.export import MetricsExporter
    from stepwatch.signals.otlp.points import Point

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentOptions:
    """The agent's options; `port` 0 takes a free port, None exports nothing.

    `page_url` is the collector's address for browsers, if not `collector`. `kernel_log` is the
    node's log, which a container mounts elsewhere. `access` holds the credentials and trust for the
    collector. Readers of `/metrics` present `metrics_token`. `dcgm` is a dcgm-exporter's URL, if
    any. `checkpoints` verifies what ranks save, None nothing.
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
    checkpoints: CheckpointOptions | None = field(default_factory=CheckpointOptions)
    profiles: bool = True
    """Whether ranks on this node are profiled when the collector asks."""

    @property
    def polls_per_flush(self) -> int:
        """The number of polls per flush, at least one."""
        return max(1, round(self.flush_seconds / self.poll_seconds))


def make_client(options: AgentOptions) -> Client:
    """Return a client for the collector, and log a warning if it is not encrypted.

    Raises:
        ConfigurationError: the address is not a URL.
    """
    client = connect(options.collector, options.access)
    beyond = not places.is_loopback(client.address.host)
    if client.address.scheme == "http" and options.access.presents_token and beyond:
        logger.warning(
            "the token and all records cross the network unencrypted to %s; give the collector "
            "--tls-cert and --tls-key, and this agent --collector https://... and --ca",
            options.collector,
        )
    return client


def make_tracer(options: AgentOptions) -> Tracer | None:
    """Return the tracer; None unless enabled.

    Raises:
        ConfigurationError: a named endpoint cannot be used.
    """
    wanted = options.traces
    if wanted is None:
        return None
    try:
        from stepwatch.agent.traces.export import Exporter  # the SDK costs memory

        return Tracer(options.node, Exporter(wanted.endpoint), wanted.every)
    except ConfigurationError as error:
        if wanted.endpoint is not None:
            raise
        # The variables may be meant for other programs on this node.
        logger.warning("no traces: %s", error)
        return None


def make_metrics(
    options: AgentOptions, points: Callable[[], list[Point]], clock: Clock
) -> MetricsExporter | None:
    """Return the OTLP metrics exporter; None unless enabled.

    Raises:
        ConfigurationError: a named endpoint cannot be used.
    """
    wanted = options.otlp
    if wanted is None:
        return None
    try:
        from stepwatch.agent.otlp.export import MetricsExporter  # it costs memory

        return MetricsExporter(wanted.endpoint, options.node, points, clock, wanted.seconds)
    except ConfigurationError as error:
        if wanted.endpoint is not None:
            raise
        logger.warning("no metrics over OTLP: %s", error)
        return None
