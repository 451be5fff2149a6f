"""`stepwatch simulate`: a training fleet from one process, for rehearsal and load tests."""

from __future__ import annotations

import argparse
import json
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING

from stepwatch.cli.interruptions import handled_by
from stepwatch.cli.source import COLLECTOR_HELP, add_access_arguments
from stepwatch.cli.terminal import start_log
from stepwatch.signals import places
from stepwatch.signals.access import Access
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.errors import UsageError

if TYPE_CHECKING:
    from stepwatch.cli.simulate.plan import Plan

EXAMPLE = (
    "stepwatch simulate --ranks 1024 --step-seconds 1 --seconds 180 "
    "--fault slow-compute:rank=37,step=60"
)
DEFAULT_SECONDS = 120.0
MOST_CONNECTIONS = 16
"""A collector refuses more concurrent requests than this."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--ranks", type=int, default=64, help="ranks of the job [64]")
    parser.add_argument("--nodes", type=int, help="nodes that they run on [one for eight ranks]")
    parser.add_argument("--step-seconds", type=float, default=1.0, help="length of a step [1]")
    parser.add_argument("--steps", type=int, help="end after so many steps")
    parser.add_argument("--seconds", type=float, help="end after so long [120]")
    parser.add_argument("--job", default="simulated", help="its name [simulated]")
    parser.add_argument(
        "--collectives", type=int, default=3, help="kinds of collectives in a step, 1 to 6 [3]"
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND:rank=R,step=S",
        help="slow-compute, slow-data, slow-node, slow-link (each with factor=), hang, kill; none",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the noise [0]")
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        help="simulated over real time; 0: as fast as the collector takes it [1]",
    )
    parser.add_argument(
        "--flush-seconds", type=float, default=2.0, help="from one segment of a node to the next"
    )
    parser.add_argument(
        "--connections", type=int, default=4, help="requests under way at once, 1 to 16 [4]"
    )
    parser.add_argument("--collector", default=places.collector_url(), help=COLLECTOR_HELP)
    add_access_arguments(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report here, too")


def run(arguments: argparse.Namespace) -> int:
    """Simulate and print the report; exit 1 unless the collector accepted every segment."""
    from stepwatch.agent.relay.client import connect
    from stepwatch.cli.simulate.report import report_json, report_text
    from stepwatch.cli.simulate.run import Simulation

    plan = plan_of(arguments)
    if not 1 <= arguments.connections <= MOST_CONNECTIONS:
        raise UsageError(f"--connections {arguments.connections} must be 1 to {MOST_CONNECTIONS}")
    start_log("simulate", logging.WARNING)
    access = Access.from_options(arguments.token_file, arguments.ca)
    with connect(arguments.collector, access) as client:
        simulation = Simulation(plan, client, SystemClock(), _note, arguments.connections)
        with handled_by(lambda *_: simulation.interrupt()):
            outcome = simulation.run()
    if arguments.json:
        _write(arguments.json, json.dumps(report_json(outcome), indent=1) + "\n")
    print(report_text(outcome))
    if outcome.interrupted:
        raise KeyboardInterrupt
    return int(not outcome.is_complete)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """Return the plan that the options define.

    Raises:
        UsageError: the options do not fit together; the message names the fix.
    """
    from stepwatch.cli.simulate.faults import parse
    from stepwatch.cli.simulate.plan import RANKS_PER_NODE, Plan

    endless = arguments.steps is None and arguments.seconds is None
    nodes = arguments.nodes
    return Plan(
        ranks=arguments.ranks,
        nodes=max(1, math.ceil(arguments.ranks / RANKS_PER_NODE)) if nodes is None else nodes,
        step_seconds=arguments.step_seconds,
        steps=arguments.steps,
        seconds=DEFAULT_SECONDS if endless else arguments.seconds,
        job=arguments.job,
        collectives=arguments.collectives,
        faults=tuple(fault for fault in map(parse, arguments.fault) if fault is not None),
        seed=arguments.seed,
        speed=arguments.speed,
        flush_seconds=arguments.flush_seconds,
    )


def _note(line: str) -> None:
    print(line, flush=True)


def _write(file: Path, content: str) -> None:
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; pass another --json") from error
