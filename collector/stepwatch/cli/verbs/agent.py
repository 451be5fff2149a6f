"""`stepwatch agent`: the per-node process."""

from __future__ import annotations

import argparse
import logging
import signal
from pathlib import Path

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.signals import places

EXAMPLE = "stepwatch agent --collector http://collector:8480 --spool /var/lib/stepwatch/spool"
DEFAULT_SPOOL = Path("/var/tmp/stepwatch/spool")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--collector", default=places.DEFAULT_COLLECTOR, help="its base URL")
    parser.add_argument("--ring-dir", type=Path, default=places.ring_dir(), help="where rings lie")
    parser.add_argument("--spool", type=Path, default=DEFAULT_SPOOL, help="where segments wait")
    parser.add_argument("--spool-limit-mib", type=int, default=256, help="disk it may use")
    parser.add_argument("--node", default=places.node_name(), help="name of this node")
    parser.add_argument(
        "--port",
        type=int,
        default=places.DEFAULT_AGENT_PORT,
        help="of /metrics; 0: any free one",
    )
    parser.add_argument("--pack-seconds", type=float, default=1.0, help="seconds per segment")
    parser.add_argument("--token-file", help="file with the collector's bearer token")


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s agent %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    options = AgentOptions(
        ring_dir=arguments.ring_dir,
        spool_dir=arguments.spool,
        collector=arguments.collector,
        node=places.checked_name(arguments.node, "node name"),
        port=arguments.port,
        token=places.read_token(arguments.token_file),
        pack_seconds=arguments.pack_seconds,
        spool_limit_bytes=arguments.spool_limit_mib << 20,
    )
    agent = Agent(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    logging.info(
        "watching %s, sending to %s, metrics on http://127.0.0.1:%s/metrics",
        options.ring_dir,
        options.collector,
        agent.port,
    )
    agent.run()
    return 0
