"""`stepwatch up`: agent, collector and page on this machine in one command."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepwatch.cli.up.plan import default_folder, make_plan
from stepwatch.cli.up.words import first_text
from stepwatch.signals import places

EXAMPLE = "stepwatch up --port 8480 --dir out/stepwatch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--port",
        type=int,
        default=places.DEFAULT_COLLECTOR_PORT,
        help="of the collector and its page on loopback; 0: any free one [%(default)s]",
    )
    parser.add_argument(
        "--agent-port",
        type=int,
        default=places.DEFAULT_AGENT_PORT,
        help="of /metrics of the agent; 0: any free one [%(default)s]",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=default_folder(),
        help="where store, spool and logs lie [%(default)s]",
    )
    parser.add_argument(
        "--ring-dir", type=Path, default=places.ring_dir(), help="where ranks write [%(default)s]"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run until Ctrl-C or SIGTERM."""
    plan = make_plan(arguments)
    # Print before the imports and starts that take seconds.
    print(first_text(plan), flush=True)
    from stepwatch.cli.up.run import run_up

    return run_up(plan)
