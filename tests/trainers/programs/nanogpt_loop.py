"""A loop in the style of nanoGPT: no DataLoader, microbatches, rank 0 alone evaluates and saves.

On one rank it is a plain script without a process group. `spawned.py` runs it under mp.spawn.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, RATE, LanguageModel, texts, warm_up
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
        self.optimizer = torch.optim.AdamW(self.raw.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, warm_up)
        self.watch = watch_of(plan)
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        if plan.resume_step:
            self.resume()
        self._generator = torch.Generator().manual_seed(rank)

    def resume(self) -> None:
        """Continue from the checkpoint of the plan."""
        state = torch.load(self.checkpoint(self.plan.resume_step))
        self.raw.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.watch.start_at(state["step"])

    def checkpoint(self, number: int) -> Path:
        """Return the path of the checkpoint before a step."""
        return Path(self.plan.folder, f"ckpt-{number}.pt")

    def batch(self) -> Batch:
        """A batch of random pieces of the text."""
        self.work.data()
        rows = self.text[torch.randint(0, len(self.text), (BATCH,), generator=self._generator)]
        return rows[:, :-1], rows[:, 1:]

    def train(self) -> None:
        """All steps."""
        batch = self.batch()
        for number in range(self.plan.resume_step, self.plan.steps):
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
        step.record(loss=total, perplexity=math.exp(total))
        self.diary.note(lr=self.schedule.get_last_lr()[0], perplexity=math.exp(total))
        self.diary.microbatch(total)
        self.schedule.step()
        return batch

    def between(self, number: int) -> None:
        """Estimate the loss and write a checkpoint on rank 0 before a step."""
        plan = self.plan
        if self.rank == 0 and number:
            if plan.eval_every and number % plan.eval_every == 0:
                self.estimate_loss()
            if plan.save_every and number % plan.save_every == 0:
                self.save(number)

    @torch.no_grad()
    def estimate_loss(self) -> None:
        """Evaluate the model without its DDP wrapper, for as long as the plan states."""
        rows = self.text[:BATCH]
        with self.diary.pause("eval"):
            end = time.monotonic() + self.plan.pause_seconds
            self.raw.eval()
            loss = self.raw(rows[:, :-1], rows[:, 1:]).item()
            while time.monotonic() < end:
                self.raw(rows[:, :-1], rows[:, 1:])
            self.raw.train()
        self.watch.record_evaluation({"val_loss": loss})
        self.diary.evaluated(loss)

    def save(self, number: int) -> None:
        """Write a checkpoint."""
        state = {
            "model": self.raw.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "step": number,
        }
        path = self.checkpoint(number)
        with self.diary.pause("save"):
            torch.save(state, path)
        self.diary.note(saved=str(path))

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
