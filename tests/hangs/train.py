"""A small trainer on Gloo that fails on one rank in one way; torchrun runs it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from stepwatch.hooks import Watch

FAULTY_RANK, FAULTY_STEP, STEPS = 1, 12, 4000


def load_shard(fault: str) -> None:
    """Fail as `fault` says: a verdict must name this function."""
    if fault == "gil":
        ctypes.PyDLL(None).sleep(120)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "sleep":
        time.sleep(120)
    elif fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exception":
        raise ValueError("shard 17 is empty")
    elif fault == "exit":
        sys.exit(3)


def reduce_gradients(watch: Watch, values: torch.Tensor) -> None:
    with watch.collective("all_reduce", None, values.nbytes):
        dist.all_reduce(values)


def share_metrics(watch: Watch, values: torch.Tensor) -> None:
    with watch.collective("broadcast", None, values.nbytes):
        dist.broadcast(values, 0)


def save(watch: Watch, step: int, seconds: float) -> None:
    """Checkpoint for `seconds`, then wait for all ranks."""
    with watch.checkpoint(step):
        time.sleep(seconds)
        dist.barrier()


def train_unevenly(watch: Watch, rank: int) -> None:
    """Run rank 0 out of data first; then the faulty rank is slow."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    watch.attach(model=model)  # else the others' backward includes the wait for the slow rank
    with model.join():
        for number in range(20 if rank == 0 else STEPS):
            with watch.step(tokens=8) as step:
                with step.phase("data"):
                    time.sleep(0.05)
                with step.phase("forward"):
                    time.sleep(0.2 if rank == FAULTY_RANK and number >= 150 else 0.0)
                    loss = model(torch.ones(4, 8)).sum()
                with step.phase("backward"):
                    loss.backward()


def train(fault: str) -> None:
    dist.init_process_group("gloo")
    twins = [dist.new_group(), dist.new_group()]  # with the same members as the world
    watch = Watch.from_env(job="hangs")
    rank = dist.get_rank()
    if fault == "save":
        watch.attach()
    if fault == "uneven":
        train_unevenly(watch, rank)
        return
    for number in range(STEPS):
        faulty = rank == FAULTY_RANK and number == FAULTY_STEP
        with watch.step(tokens=8) as step:
            with step.phase("data"):
                time.sleep(0.05)
                if faulty:
                    load_shard(fault)
            with step.phase("backward"):
                size = 500 if faulty and fault == "shape" else 1000
                calls = [(reduce_gradients, size), (share_metrics, 10)]
                for call, elements in calls[:: -1 if faulty and fault == "order" else 1]:
                    call(watch, torch.ones(elements))
                if fault == "crossed":
                    for group in twins[:: -1 if faulty else 1]:
                        with watch.collective("all_reduce", group, 40):
                            dist.all_reduce(torch.ones(10), group=group)
        if fault == "save" and number % 10 == 9:
            save(watch, number, 3.0 if rank == FAULTY_RANK else 0.05)


if __name__ == "__main__":
    train(sys.argv[1])
