"""Imports torch once and forks the ranks of each run, so that a rank starts in milliseconds.

Reads one plan per line, answers with the process ids of its ranks, and ends its children with
itself. It forks while no process group, and so no thread, exists.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel as _warm  # noqa: F401

from tests.ranks.child import become_rank, environment_of
from tests.verdicts import loop, reference
from tests.verdicts.device import loop as device_loop
from tests.verdicts.plan import Plan, read_plan
from tests.verdicts.real import loop as real_loop

_WORKLOADS: dict[str, Callable[[Plan, int], None]] = {
    "loop": loop.train,
    "trainer": reference.train,
    "device": device_loop.train,
    "outside": real_loop.train,
}


def become(plan: Plan, rank: int) -> None:
    """Turn this fresh child into a rank: its own output, torchrun's environment."""
    place = environment_of(rank, plan.world, plan.port)
    log = Path(plan.folder, f"rank-{rank}.log")
    become_rank(log, {**place, "GLOO_SOCKET_IFNAME": "lo", **plan.environ})


def serve() -> tuple[Plan, int] | None:
    """Fork for each plan until the input ends; in a child, return its task."""
    for line in sys.stdin:
        plan, children = read_plan(line), []
        for rank in range(plan.world):
            child = os.fork()
            if child == 0:
                become(plan, rank)
                return plan, rank
            children.append(child)
        print(json.dumps(children), flush=True)
    return None


def main() -> None:
    """Serve, or be a rank."""
    # Ranks that end must not be zombies, which an agent correctly takes for dead.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    print("ready", flush=True)
    task = serve()
    if task is not None:
        _WORKLOADS[task[0].workload](*task)


if __name__ == "__main__":
    main()
