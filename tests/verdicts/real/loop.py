"""A DistributedDataParallel loop without faults of its own: its faults come from outside.

It computes for a part of its time and waits in small pieces for the rest, as for a device. A stop
of the process delays it, however short the stop is.
"""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch
from stepwatch.signals import places
from tests.verdicts.plan import Plan
from tests.verdicts.real import environ, links, storage

WIDTH, BATCH = 96, 16
_PIECE_SECONDS = 0.004
_CHUNK_BYTES = 1 << 20


def _work(seconds: float, busy: float) -> None:
    """Compute for a part of `seconds` and wait for the rest."""
    part = torch.ones(WIDTH, WIDTH)
    pieces = max(1, round(seconds / _PIECE_SECONDS))
    for _ in range(pieces):
        until = time.thread_time() + busy * seconds / pieces
        while time.thread_time() < until:
            part = torch.tanh(part @ part)
        time.sleep((1.0 - busy) * seconds / pieces)


def _read(batches: str) -> None:
    """Read a file from beginning to end."""
    with open(batches, "rb", buffering=0) as file:
        while file.read(_CHUNK_BYTES):
            pass


def _of_node(name: str, plan: Plan, rank: int) -> str:
    """Return the entry of an environment variable for a rank's node; empty without one."""
    parts = plan.environ.get(name, "").split(":")
    return parts[rank * len(parts) // plan.world]


def _obey() -> None:
    """Install signal handlers that end, fail, sleep or spin, as faulty programs do."""

    def fail(number: int, frame: object) -> None:
        raise ValueError("could not convert string to float: 'nan,'")

    def spin(number: int, frame: object) -> None:
        while True:
            pass

    signal.signal(environ.LEAVE, lambda number, frame: os._exit(0))
    signal.signal(environ.FAIL, fail)
    signal.signal(environ.SLEEP, lambda number, frame: time.sleep(3600.0))
    signal.signal(environ.SPIN, spin)


def train(plan: Plan, rank: int) -> None:
    """Train to the last step."""
    if space := _of_node(environ.ENV_NODE_SPACES, plan, rank):
        links.enter(space)
    if rings := _of_node(environ.ENV_NODE_RINGS, plan, rank):
        os.environ[places.ENV_RING_DIR] = rings
    path, reading = plan.environ.get(environ.ENV_STORAGE, ""), None
    if path:
        reading = storage.connect(path, rank)
    batches = _of_node(environ.ENV_BATCHES, plan, rank)
    busy = float(plan.environ.get(environ.ENV_BUSY, environ.BUSY_SHARE))
    _obey()
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
                _work(plan.data_seconds, busy)
                if reading is not None:
                    storage.read_batch(reading)
                if batches:
                    _read(batches)
                inputs = torch.randn(BATCH, WIDTH)
            with step.phase("forward"):
                _work(plan.forward_seconds, busy)
                loss = model(inputs).square().mean()
            with step.phase("backward"):
                _work(plan.backward_seconds, busy)
                loss.backward()
            with step.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            step.record(loss=float(loss.detach()))
    watch.finish()
    watch.close()
    dist.barrier()
    os._exit(0)
