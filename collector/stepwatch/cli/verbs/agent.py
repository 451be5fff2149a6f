"""`stepwatch agent`: the per-node process."""

from __future__ import annotations

import argparse
import gc
import logging
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from stepwatch.agent.traces import DEFAULT_EVERY
from stepwatch.cli.access import otlp
from stepwatch.cli.source import COLLECTOR_HELP, add_access_arguments
from stepwatch.cli.terminal import add_log_argument, start_log
from stepwatch.cli.verbs.checkpoint import bytes_per_second
from stepwatch.signals import places
from stepwatch.signals.access import Access, read_token
from stepwatch.signals.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from stepwatch.agent.checkpoints.jobs.options import CheckpointOptions
    from stepwatch.agent.otlp import OtlpOptions
    from stepwatch.agent.traces.tracer import TraceOptions

EXAMPLE = "stepwatch agent --collector http://collector:8480 --spool /var/lib/stepwatch/spool"
MOST_FLUSH_SECONDS = 60.0
"""A ring holds minutes of records: an agent that flushes less often may lose some."""
MOST_DESCRIPTORS = 65_536
MOST_DAYS = 3650


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--collector", default=places.collector_url(), help=COLLECTOR_HELP)
    parser.add_argument("--ring-dir", type=Path, default=places.ring_dir(), help="where rings lie")
    parser.add_argument(
        "--spool", type=Path, default=places.DEFAULT_SPOOL, help="where segments wait"
    )
    parser.add_argument("--spool-limit-mib", type=int, default=256, help="disk it may use")
    parser.add_argument("--node", default=places.node_name(), help="name of this node")
    parser.add_argument(
        "--port",
        type=int,
        default=places.DEFAULT_AGENT_PORT,
        help="of /metrics, /healthz and /readyz; 0: any free one",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="beyond loopback needs --metrics-token-file"
    )
    parser.add_argument(
        "--metrics-token-file",
        metavar="FILE",
        help="file with the bearer token that readers of /metrics present",
    )
    parser.add_argument(
        "--flush-seconds", type=float, default=1.0, help="seconds from one segment to the next"
    )
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help=f"send traces and metrics to this OTLP/HTTP receiver [{otlp.VARIABLE}]",
    )
    parser.add_argument(
        "--trace-every", type=int, default=DEFAULT_EVERY, help="one in so many ordinary steps"
    )
    parser.add_argument(
        "--page-url",
        default="",
        metavar="URL",
        help="where browsers reach the collector; runs print it [--collector]",
    )
    parser.add_argument(
        "--kernel-log",
        type=Path,
        default=Path("/dev/kmsg"),
        metavar="FILE",
        help="log of the node's kernel, where a container has it elsewhere",
    )
    parser.add_argument(
        "--dcgm",
        default="",
        metavar="URL",
        help="read devices from this dcgm-exporter, too: http://127.0.0.1:9400/metrics",
    )
    parser.add_argument(
        "--verify-checkpoints",
        default="200MB/s",
        metavar="RATE",
        help="read the checkpoints that ranks save, at most so fast; off: read none [200MB/s]",
    )
    parser.add_argument(
        "--reverify-days",
        type=float,
        default=30.0,
        metavar="DAYS",
        help="read each job's newest good checkpoint again after so many days; 0: never [30]",
    )
    parser.add_argument(
        "--no-profiles",
        action="store_true",
        help="profile no rank of this node when the collector asks",
    )
    add_log_argument(parser)
    add_access_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    from stepwatch.agent.app import Agent, AgentOptions

    start_log("agent", form=arguments.log_format)
    options = AgentOptions(
        ring_dir=arguments.ring_dir,
        spool_dir=arguments.spool,
        collector=arguments.collector,
        node=places.checked_name(arguments.node, "node name"),
        port=arguments.port,
        access=Access.from_options(arguments.token_file, arguments.ca),
        flush_seconds=_flush_seconds(arguments.flush_seconds),
        spool_limit_bytes=arguments.spool_limit_mib << 20,
        traces=_traces(arguments),
        otlp=_metrics(arguments),
        page_url=arguments.page_url,
        kernel_log=arguments.kernel_log,
        host=arguments.host,
        metrics_token=read_token(arguments.metrics_token_file),
        dcgm=_dcgm(arguments.dcgm),
        checkpoints=_checkpoints(arguments.verify_checkpoints, arguments.reverify_days),
        profiles=not arguments.no_profiles,
    )
    _raise_descriptors()
    agent = Agent(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    logging.info(
        "watching %s, sending to %s, metrics on http://%s:%s/metrics",
        options.ring_dir,
        options.collector,
        options.host,
        agent.port,
    )
    gc.collect()
    gc.freeze()  # imported modules stay: no later collection visits them
    agent.run()
    return 0


def _raise_descriptors() -> None:
    """Raise the limit on descriptors to this process's maximum: a node may start with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _flush_seconds(seconds: float) -> float:
    if not 0 < seconds <= MOST_FLUSH_SECONDS:
        raise UsageError(
            f"--flush-seconds {seconds:g} must be above 0 and at most {MOST_FLUSH_SECONDS:g}"
        )
    return seconds


def _dcgm(url: str) -> str:
    from stepwatch.agent.probes.dcgm.endpoint import checked_url

    try:
        return checked_url(url) if url else ""
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def _checkpoints(rate: str, days: float) -> CheckpointOptions | None:
    from stepwatch.agent.checkpoints.jobs.options import DAY_SECONDS, CheckpointOptions

    if not 0 <= days <= MOST_DAYS:
        raise UsageError(f"--reverify-days {days:g} must be from 0 to {MOST_DAYS}")
    if rate == "off":
        return None
    try:
        return CheckpointOptions(rate=bytes_per_second(rate), every_seconds=days * DAY_SECONDS)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--verify-checkpoints: {error}") from error


def _traces(arguments: argparse.Namespace) -> TraceOptions | None:
    from stepwatch.agent.traces.tracer import TraceOptions

    if arguments.trace_every < 1:
        raise UsageError(f"--trace-every {arguments.trace_every} must be 1 or more")
    endpoint = otlp.checked_endpoint(arguments.otlp)
    is_enabled = otlp.is_sent(endpoint, "TRACES")
    return TraceOptions(endpoint, arguments.trace_every) if is_enabled else None


def _metrics(arguments: argparse.Namespace) -> OtlpOptions | None:
    from stepwatch.agent.otlp import OtlpOptions

    return OtlpOptions(arguments.otlp) if otlp.is_sent(arguments.otlp, "METRICS") else None
