"""A loop in the style of nanoGPT: no DataLoader, microbatches, rank 0 alone evaluates and saves.

On one rank it is a plain script without a process group. `spawned.py` runs it under mp.spawn.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, LanguageModel, texts
from tests.trainers.programs.plan import Plan, read_plan
from tests.trainers.programs.watching import watch_of
from tests.trainers.programs.work import SlowStorage, Work, leave

MICROBATCHES = 2
Batch = tuple[Tensor, Tensor]


class Run:
    """One rank of one run."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank, self.diary = plan, rank, Diary(plan, rank)
        self.work = Work(self.diary)
        self.text = texts(rank, 256)
        self.raw = LanguageModel()
        self.work.inside(self.raw)
        model: Any = self.raw
        if plan.compiled:
            model = torch.compile(self.raw, backend=plan.compiled)
        self.model = DistributedDataParallel(model) if dist.is_initialized() else model
        self.optimizer = torch.optim.AdamW(self.raw.parameters(), lr=1e-3)
        self.watch = watch_of(plan)
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        self._generator = torch.Generator().manual_seed(rank)

    def batch(self) -> Batch:
        """A batch of random pieces of the text."""
        self.work.data()
        rows = self.text[torch.randint(0, len(self.text), (BATCH,), generator=self._generator)]
        return rows[:, :-1], rows[:, 1:]

    def train(self) -> None:
        """All steps."""
        batch = self.batch()
        for number in range(self.plan.steps):
            self.between(number)
            with self.watch.step(tokens=MICROBATCHES * BATCH * CONTEXT) as step:
                batch = self.train_step(batch, step)
            self.diary.step(MICROBATCHES * BATCH * CONTEXT)

    def train_step(self, batch: Batch, step: Any) -> Batch:
        """One step; returns the batch of the next, fetched while a device would compute."""
        total = 0.0
        for micro in range(MICROBATCHES):
            if isinstance(self.model, DistributedDataParallel):
                self.model.require_backward_grad_sync = micro == MICROBATCHES - 1
            with step.phase("forward"):
                loss = self.model(*batch) / MICROBATCHES
            with step.phase("data"):
                batch = self.batch()
            with step.phase("backward"):
                loss.backward()
            total += loss.item()
        with step.phase("optimizer"):
            nn.utils.clip_grad_norm_(self.raw.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        step.record(loss=total)
        self.diary.microbatch(total)
        return batch

    def between(self, number: int) -> None:
        """Estimate the loss and write a checkpoint on rank 0 before a step."""
        if self.rank == 0 and number and self.plan.eval_every:
            if number % self.plan.eval_every == 0:
                self.estimate_loss()
            if number % self.plan.save_every == 0:
                self.save(number)

    @torch.no_grad()
    def estimate_loss(self) -> None:
        """Evaluate the model without its DDP wrapper, for as long as the plan states."""
        rows = self.text[:BATCH]
        with self.diary.pause("eval"):
            end = time.monotonic() + self.plan.pause_seconds
            self.raw.eval()
            while time.monotonic() < end:
                self.raw(rows[:, :-1], rows[:, 1:])
            self.raw.train()

    def save(self, number: int) -> None:
        """Write a checkpoint."""
        state = {"model": self.raw.state_dict(), "optimizer": self.optimizer.state_dict()}
        with self.diary.pause("save"):
            torch.save({**state, "step": number}, Path(self.plan.folder, "ckpt.pt"))

    def end(self) -> None:
        """Write the diary."""
        self.watch.finish()
        self.watch.close()
        ops = ["all_reduce"] if self.plan.world > 1 else []
        size = sum(4 * parameter.numel() for parameter in self.raw.parameters())
        self.diary.write(self.raw.parameters(), ops=ops, step_bytes=size if ops else 0)


def train(plan: Plan, rank: int) -> None:
    """Train as `rank`; the process group exists if there are others."""
    torch.set_num_threads(1)
    SlowStorage(plan.pause_seconds).install()
    run = Run(plan, rank)
    run.train()
    run.end()
    leave()


def main() -> None:
    """Train under torchrun, or alone."""
    plan = read_plan()
    if plan.world > 1:
        dist.init_process_group("gloo")
    train(plan, int(os.environ.get("RANK", "0")))


if __name__ == "__main__":
    main()
