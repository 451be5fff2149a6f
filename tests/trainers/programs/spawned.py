"""The nanoGPT-style loop in processes that `torch.multiprocessing.spawn` starts."""

from __future__ import annotations

import os

import torch.distributed as dist
import torch.multiprocessing as mp

from tests.ports import free_port
from tests.trainers.programs.nanogpt_loop import train
from tests.trainers.programs.plan import Plan, read_plan


def worker(rank: int, plan: Plan) -> None:
    """One rank, numbered by its argument alone."""
    dist.init_process_group("gloo", rank=rank, world_size=plan.world)
    train(plan, rank)


def main() -> None:
    """Spawn the ranks."""
    plan = read_plan()
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(free_port())
    mp.spawn(worker, args=(plan,), nprocs=plan.world)  # type: ignore[attr-defined, no-untyped-call]


if __name__ == "__main__":
    main()
