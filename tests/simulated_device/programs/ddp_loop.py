"""A DistributedDataParallel loop on the simulated device, as a user writes it, watched.

    torchrun --nproc-per-node 2 -m tests.simulated_device.programs.ddp_loop --steps 50

The faults change the rank's own device or host, from a step on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from stepwatch.hooks import Watch
from tests.simulated_device import device

WIDTH, CLASSES, BATCH = 32, 8, 16


class Net(nn.Module):
    """Blocks that can recompute their activations in backward."""

    def __init__(self, blocks: int, recompute: bool) -> None:
        super().__init__()
        self.recompute = recompute
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(blocks)
        )
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits of shape (batch, classes)."""
        for block in self.blocks:
            inputs = (
                checkpoint(block, inputs, use_reentrant=False) if self.recompute else block(inputs)
            )
        logits: Tensor = self.head(inputs)
        return logits


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", default="simulated-ddp")
    parser.add_argument("--device", default="sim", help="sim or cpu")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--op-seconds", type=float, help="device time of an operation")
    parser.add_argument("--link-seconds", type=float, help="device time of a collective")
    parser.add_argument(
        "--data-seconds", type=float, default=0.0, help="the loader needs per batch"
    )
    parser.add_argument("--read-loss", type=int, default=10, help="every so many steps; 0: never")
    parser.add_argument(
        "--accumulate", type=int, default=1, help="micro-batches, all but one no_sync"
    )
    parser.add_argument("--recompute", action="store_true", help="activation checkpointing")
    parser.add_argument(
        "--side-stream", action="store_true", help="copy batches on a second stream"
    )
    parser.add_argument("--bare", action="store_true", help="mark no phases")
    parser.add_argument("--fault-rank", type=int, default=-1)
    parser.add_argument("--fault-step", type=int, default=0)
    parser.add_argument("--device-factor", type=float, default=1.0, help="fault: a slow device")
    parser.add_argument("--host-sleep", type=float, default=0.0, help="fault: seconds in forward")
    parser.add_argument(
        "--slow-link", type=float, default=0.0, help="fault: seconds more a collective"
    )
    parser.add_argument("--json", default="", help="write the losses here, from rank 0")
    return parser.parse_args(words)


class Loop:
    """One rank of one run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.rank = options, dist.get_rank()
        torch.manual_seed(1)
        model = Net(options.blocks, options.recompute).to(options.device)
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.watch = Watch.from_env(job=options.job)
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        self.copies = torch.Stream(options.device) if options.side_stream else None
        self.losses: list[Tensor] = []

    def loader(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield host batches; they depend on rank and number only."""
        source = torch.Generator().manual_seed(1000 + self.rank)
        for _ in range(self.options.steps * self.options.accumulate):
            time.sleep(self.options.data_seconds)
            inputs = torch.randn(BATCH, WIDTH, generator=source)
            yield inputs, inputs[:, :CLASSES].argmax(1)

    def to_device(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Copy a batch, on the second stream if there is one."""
        if self.copies is None:
            return batch[0].to(self.options.device), batch[1].to(self.options.device)
        with self.copies:
            moved = tuple(tensor.to(self.options.device, non_blocking=True) for tensor in batch)
        torch.accelerator.current_stream().wait_stream(self.copies)
        return moved[0], moved[1]

    def inject(self, step: int) -> bool:
        """Begin the fault at its step; whether the host is to be late."""
        options = self.options
        if self.rank != options.fault_rank or step < options.fault_step:
            return False
        if step == options.fault_step:
            device.set_slow(options.device_factor)
            device.set_link((options.link_seconds or 0.0) + options.slow_link)
        return bool(options.host_sleep)

    def forward(self, batch: tuple[Tensor, Tensor], is_late: bool) -> Tensor:
        """Return the loss of a micro-batch."""
        inputs, labels = self.to_device(batch)
        if is_late:
            time.sleep(self.options.host_sleep)
        loss = nn.functional.cross_entropy(self.model(inputs), labels)
        return loss / float(self.options.accumulate)

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Mark a phase, unless the trainer marks none."""
        return nullcontext() if self.options.bare else self.watch.phase(name)

    def micro(self, batch: tuple[Tensor, Tensor], is_late: bool, last: bool) -> Tensor:
        """Run forward and backward of a micro-batch; gradients are reduced in the last one."""
        with nullcontext() if last else self.model.no_sync():
            with self.phase("forward"):
                loss = self.forward(batch, is_late)
            with self.phase("backward"):
                loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def step(self, number: int, batches: Iterator[tuple[Tensor, Tensor]]) -> None:
        """Train one step."""
        is_late, count = self.inject(number), self.options.accumulate
        with self.watch.step(tokens=BATCH * count) as step:
            parts = [
                self.micro(next(batches), is_late and index == 0, index == count - 1)
                for index in range(count)
            ]
            with self.phase("optimizer"):
                self.optimizer.step()
                self.optimizer.zero_grad()
            loss = torch.stack(parts).sum()
            self.losses.append(loss)
            every = self.options.read_loss
            if every and number % every == 0:
                step.record(loss=loss.item())

    def run(self) -> None:
        """Train to the last step."""
        batches = self.watch.batches(self.loader())
        for number in range(self.options.steps):
            self.step(number, batches)
        self.watch.finish()


def main() -> None:
    """Join the group, train, write the losses and leave."""
    options = parse()
    if options.device == device.NAME:
        device.load()
        if options.op_seconds is not None:
            device.set_default_seconds(options.op_seconds)
        if options.link_seconds is not None:
            device.set_link(options.link_seconds)
    dist.init_process_group("cpu:gloo,sim:simccl" if options.device == "sim" else "gloo")
    loop = Loop(options)
    loop.run()
    losses = [loss.item() for loss in loop.losses]
    loop.watch.close()
    if options.json and loop.rank == 0:
        Path(options.json).write_text(json.dumps({"losses": losses}))
    # Drop it before the group: a DDP model that holds the last reference would wait, with the
    # interpreter's lock, for a Gloo thread that wants it
    # (https://github.com/pytorch/pytorch/issues/56297).
    del loop
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
