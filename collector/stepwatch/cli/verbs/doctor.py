"""`stepwatch doctor`: may a job start on this node?"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from stepwatch.cli.source import COLLECTOR_HELP, add_access_arguments
from stepwatch.signals import places
from stepwatch.signals.access import Access
from stepwatch.signals.errors import UsageError

if TYPE_CHECKING:
    from stepwatch.agent.doctor import Meeting, Result

EXAMPLE = "stepwatch doctor --collector http://collector:8480 --checkpoints /ckpt --need HF_TOKEN"
MOST_BURN_SECONDS = 600.0
MOST_NODES = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--collector", default=os.environ.get(places.ENV_COLLECTOR, ""), help=COLLECTOR_HELP
    )
    add_access_arguments(parser)
    parser.add_argument(
        "--checkpoints",
        type=Path,
        metavar="DIR",
        default=_folder(places.ENV_CHECKPOINTS),
        help="where the job writes: tried for real; the newest checkpoint there is verified "
        f"({places.ENV_CHECKPOINTS})",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        default=_folder(places.ENV_DATA),
        help=f"shards with a manifest, as the reference trainer has them ({places.ENV_DATA})",
    )
    parser.add_argument(
        "--need",
        action="append",
        default=[],
        metavar="VARIABLE",
        help="a variable that must be set, such as a secret; its value is never shown",
    )
    parser.add_argument(
        "--burn",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="also test devices, memory and all-reduce for so long",
    )
    parser.add_argument(
        "--rendezvous",
        metavar="HOST:PORT",
        help="with --burn: also test pairs of nodes, which meet at a port of node 0",
    )
    environ = os.environ
    parser.add_argument(
        "--nodes",
        type=int,
        default=environ.get("SLURM_NNODES", "0"),
        help="how many nodes meet there (SLURM_NNODES)",
    )
    parser.add_argument(
        "--node-rank",
        type=int,
        default=environ.get("SLURM_NODEID", "0"),
        help="which of them this is, from 0 (SLURM_NODEID)",
    )
    parser.add_argument(
        "--kernel-log",
        type=Path,
        default=Path("/dev/kmsg"),
        metavar="FILE",
        help="log of the node's kernel, where a container has it elsewhere",
    )
    parser.add_argument(
        "--only",
        choices=("node", "user"),
        help="only checks for the nodes' operator, or for the job's owner",
    )
    parser.add_argument(
        "--strict", action="store_true", help="warnings and unknown results count as failed, too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Examine the node; exit 1 if a job must not start here, else 0."""
    from stepwatch.agent.doctor import CHECKS, Examined, examine
    from stepwatch.agent.doctor.result import Surroundings
    from stepwatch.cli.preflight import run_files

    if not 0.0 <= arguments.burn <= MOST_BURN_SECONDS:
        raise UsageError(f"--burn {arguments.burn:g} must be 0 to {MOST_BURN_SECONDS:g}")
    around = Surroundings(
        environ=os.environ,
        collector=arguments.collector.rstrip("/"),
        access=Access.from_options(arguments.token_file, arguments.ca),
        checkpoints=arguments.checkpoints,
        data=arguments.data,
        needed=tuple(arguments.need),
        kernel_log=arguments.kernel_log,
    )
    results = []
    checks = {**CHECKS, "files": run_files.check}
    for result in examine(around, arguments.burn, checks, _meeting(arguments)):
        if arguments.only and not result.problem.startswith(arguments.only):
            continue
        results.append(result)
        if not arguments.json:
            print(line(result, in_slurm="SLURM_JOB_ID" in os.environ), flush=True)
    examined = Examined(tuple(results))
    failed = examined.doubtful if arguments.strict else examined.failed
    if arguments.json:
        print(
            json.dumps(
                {"ok": not failed, "checks": [result._asdict() for result in results]}, indent=1
            )
        )
    else:
        print(summary(results, failed=failed))
    return int(failed)


def _folder(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def _meeting(arguments: argparse.Namespace) -> Meeting | None:
    """Return the rendezvous for the pair test; None if it is not requested."""
    from stepwatch.agent.doctor import Meeting

    if not arguments.rendezvous:
        return None
    host, _, port = arguments.rendezvous.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--rendezvous {arguments.rendezvous!r} must be HOST:PORT")
    if not arguments.burn:
        raise UsageError("--rendezvous needs --burn SECONDS")
    nodes, node = arguments.nodes, arguments.node_rank
    if not 2 <= nodes <= MOST_NODES or not 0 <= node < nodes:
        text = f"--nodes {nodes} --node-rank {node}: two nodes or more, numbered from 0"
        raise UsageError(text)
    return Meeting(host, int(port), nodes, node, places.node_name())


def line(result: Result, *, in_slurm: bool = False) -> str:
    """Return one check as text; under Slurm a problem begins with its owner, node or user."""
    wrong = result.outcome.value in ("FAIL", "WARN")
    owner = f"[{result.problem}] " if in_slurm and wrong else ""
    remedy = f"\n{'':8} → {result.remedy}" if result.remedy else ""
    return f"{result.outcome:8} {owner}{result.check}: {result.text}{remedy}"


def summary(results: list[Result], *, failed: bool) -> str:
    """Return the counts by outcome, and the conclusion."""
    counts = Counter(result.outcome.value for result in results)
    totals = ", ".join(f"{counts[name]} {name}" for name in ("FAIL", "WARN", "UNKNOWN", "PASS"))
    return f"{totals}: {'a job should not start here' if failed else 'a job may start here'}"
