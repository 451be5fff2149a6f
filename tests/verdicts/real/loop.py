"""A DistributedDataParallel loop that knows of no fault: what happens to it comes from outside.

It is busy for a part of its time, and waits in small pieces for the rest, as for a device: what
stops the process delays it, however short the stop.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch
from stepwatch.signals import places
from tests.verdicts.plan import Plan

ENV_NODE_RINGS = "STEPWATCH_TEST_NODE_RINGS"
"""Directories of rings, one a node, divided by colons; ranks fill one node after the other."""
WIDTH, BATCH = 96, 16
_PIECE_SECONDS = 0.004
_BUSY_SHARE = 0.15


def _work(seconds: float) -> None:
    """Compute for a part of `seconds` and wait for the rest."""
    part = torch.ones(WIDTH, WIDTH)
    pieces = max(1, round(seconds / _PIECE_SECONDS))
    for _ in range(pieces):
        until = time.perf_counter() + _BUSY_SHARE * seconds / pieces
        while time.perf_counter() < until:
            part = torch.tanh(part @ part)
        time.sleep((1.0 - _BUSY_SHARE) * seconds / pieces)


def _own_rings(plan: Plan, rank: int) -> None:
    """Let a rank write where its node's agent reads."""
    folders = plan.environ.get(ENV_NODE_RINGS, "").split(":")
    if folders != [""]:
        os.environ[places.ENV_RING_DIR] = folders[rank * len(folders) // plan.world]


def train(plan: Plan, rank: int) -> None:
    """Train to the last step."""
    _own_rings(plan, rank)
    dist.init_process_group("gloo", timeout=timedelta(seconds=300))
    torch.manual_seed(plan.seed)
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watch = Watch.from_env(job=plan.job)
    watch.attach(model=model, optimizer=optimizer)
    for _ in range(plan.steps):
        with watch.step(tokens=BATCH) as step:
            with step.phase("data"):
                _work(plan.data_seconds)
                inputs = torch.randn(BATCH, WIDTH)
            with step.phase("forward"):
                _work(plan.forward_seconds)
                loss = model(inputs).square().mean()
            with step.phase("backward"):
                _work(plan.backward_seconds)
                loss.backward()
            with step.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            step.record(loss=float(loss.detach()))
    watch.finish()
    watch.close()
    dist.barrier()
    os._exit(0)
