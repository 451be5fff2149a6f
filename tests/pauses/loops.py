"""Small training loops in users' styles, each with one long healthy pause.

`record` runs them, on two ranks with Gloo (on one where the case needs it). `busy` computes.
"""

from __future__ import annotations

import io
import os
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import LoopObserver, follow

STEPS, PAUSE_AFTER, PAUSE_SECONDS, WIDTH = 44, 24, 11.0, 64


def busy(seconds: float) -> None:
    """Compute for `seconds`."""
    end, matrix = time.monotonic() + seconds, torch.randn(256, 256)
    while time.monotonic() < end:
        matrix = torch.tanh(matrix @ matrix)


def is_first() -> bool:
    """Return whether this is rank 0."""
    return int(os.environ.get("RANK", "0")) == 0


def model() -> torch.nn.Module:
    """A small network."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, 4)
    )


def ordinary(job: str, pause: Callable[[torch.nn.Module], None]) -> None:
    """Run a loop with the README's lines only; `pause` runs between two steps."""
    wrapped: Any = DistributedDataParallel(model()) if dist.is_initialized() else model()
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    watch = Watch.from_env(job=job)
    watch.attach(model=wrapped, optimizer=optimizer)
    loader = [torch.randn(8, WIDTH) for _ in range(STEPS)]
    for number, batch in enumerate(watch.batches(loader)):
        with watch.step(tokens=batch.numel()) as step:
            with step.phase("forward"):
                time.sleep(0.05)
                loss = wrapped(batch).square().mean()
            with step.phase("backward"):
                loss.backward()
            with step.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            step.record(loss=loss)
        if number == PAUSE_AFTER:
            pause(wrapped)
    watch.finish()
    watch.close()


def train_observed(job: str, pause: Callable[[torch.nn.Module, LoopObserver], None]) -> None:
    """Run the loop of a framework whose adapter ends the steps."""
    wrapped = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    watch = Watch.from_env(job=job)
    observer = follow(watch, boundaries=False)
    assert observer is not None, "nothing is recorded"
    for number in range(STEPS):
        time.sleep(0.05)
        observer.model_called(wrapped)
        loss = wrapped(torch.randn(8, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        observer.end_step()
        if number == PAUSE_AFTER:
            pause(wrapped, observer)
    watch.finish()
    watch.close()


def estimate_loss(wrapped: torch.nn.Module) -> None:
    """nanoGPT's way: rank 0 alone evaluates, without a loader; the other ranks continue to their
    step."""
    if is_first():
        wrapped.eval()
        with torch.no_grad():
            busy(PAUSE_SECONDS)
        wrapped.train()


def evaluate_alone(_wrapped: torch.nn.Module) -> None:
    """Rank 0 alone evaluates, all meet at a barrier."""
    if is_first():
        busy(PAUSE_SECONDS)
    dist.barrier()


def save_safely(_wrapped: torch.nn.Module) -> None:
    """Rank 0 alone serialises tensors and writes them, with nothing of torch's own."""
    if is_first():
        with TemporaryDirectory() as folder, open(Path(folder, "model.bin"), "wb") as out:
            end, tensor = time.monotonic() + PAUSE_SECONDS, torch.randn(1 << 18)
            while time.monotonic() < end:
                out.seek(0)
                out.write(zlib.compress(tensor.numpy().tobytes(), 9))
                out.flush()
                os.fsync(out.fileno())


def evaluate_one_batch(wrapped: torch.nn.Module, observer: LoopObserver) -> None:
    """Evaluate one long batch from a loader on every rank."""
    wrapped.eval()
    observer.data_begins()
    observer.data_ends(came=True)
    with torch.no_grad():
        busy(PAUSE_SECONDS if is_first() else PAUSE_SECONDS - 2)
    dist.barrier()
    wrapped.train()


def validate_one_batch(wrapped: torch.nn.Module, _observer: LoopObserver) -> None:
    """Validate one long batch on every rank; then average the losses."""
    with torch.no_grad():
        busy(PAUSE_SECONDS)
        dist.all_reduce(torch.zeros(1))


class _SlowWriter(FileSystemWriter):
    """A slow writer, as one that compresses its data."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Pack for a while, then write."""
        busy(PAUSE_SECONDS)
        return super().write_data(plan, planner)


def sharded_save(job: str) -> None:
    """An FSDP2 loop in which all ranks save with `dcp.save`."""
    sharded: Any = model()
    fully_shard(sharded)
    optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
    watch = Watch.from_env(job=job)
    watch.attach(model=sharded, optimizer=optimizer)
    for number in range(STEPS):
        with watch.step(tokens=8):
            time.sleep(0.05)
            sharded(torch.randn(8, WIDTH)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        if number == PAUSE_AFTER:
            with TemporaryDirectory() as folder:
                save(sharded.state_dict(), storage_writer=_SlowWriter(folder))
    watch.finish()
    watch.close()


def readme(_wrapped: torch.nn.Module) -> None:
    """All ranks evaluate, then rank 0 writes a checkpoint in its own format: no snippet forbids
    that."""
    busy(PAUSE_SECONDS / 2)
    if is_first():
        zlib.compress(io.BytesIO(bytes(1 << 20)).getvalue(), 9)
        busy(PAUSE_SECONDS / 2)


def sleep_alone(_wrapped: torch.nn.Module) -> None:
    """A fault: rank 1 is stuck outside any operation, and its peer waits for it in a collective."""
    if not is_first():
        time.sleep(PAUSE_SECONDS)


CASES: dict[str, Callable[[str], None]] = {
    "nanogpt-estimate-loss": lambda job: ordinary(job, estimate_loss),
    "evaluation-on-rank-0": lambda job: ordinary(job, evaluate_alone),
    "safetensors-save": lambda job: ordinary(job, save_safely),
    "hf-evaluation-batch": lambda job: train_observed(job, evaluate_one_batch),
    "lightning-validation-batch": lambda job: train_observed(job, validate_one_batch),
    "fsdp2-dcp-save": sharded_save,
    "readme-snippet": lambda job: ordinary(job, readme),
    "single-process-pause": lambda job: ordinary(job, lambda _: time.sleep(PAUSE_SECONDS)),
    "stuck-rank": lambda job: ordinary(job, sleep_alone),
}
"""Pauses, and one fault, by name, which is also the job's."""


def main(case: str) -> None:
    """Run as one rank of a case."""
    torch.set_num_threads(1)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        dist.init_process_group("gloo")
    CASES[case](case)


if __name__ == "__main__":
    main(sys.argv[1])
