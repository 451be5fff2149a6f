"""A loop in the style of picotron: groups of its own, and plain calls of torch.distributed.

The ranks divide data (dp), the hidden width (tp) or the blocks (pp).
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import (
    BATCH,
    CONTEXT,
    RATE,
    WIDTH,
    LanguageModel,
    loss_of,
    texts,
    warm_up,
)
from tests.trainers.programs.plan import Plan, read_plan
from tests.trainers.programs.shards import DataParallel, share_width
from tests.trainers.programs.watching import NullWatch, watch_of
from tests.trainers.programs.work import SlowStorage, Work, leave

MICROBATCHES = 2
OPS = {"dp": ["all_reduce"], "tp": ["all_reduce"], "pp": ["send", "recv"]}
Batch = tuple[Tensor, Tensor]


class Loop:
    """One rank of one run."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank, self.diary = plan, rank, Diary(plan, rank)
        self.work = Work(self.diary)
        self.first = plan.axis != "pp" or rank == 0
        self.last = plan.axis != "pp" or rank == plan.world - 1
        self.group = dist.new_group(list(range(plan.world)))
        self.model = LanguageModel(blocks=2 * plan.world)
        self.shard()
        self.parallel = DataParallel(self.model, self.group) if plan.axis == "dp" else None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, warm_up)
        self.watch = watch_of(plan)
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        self._text, self._batch_number = texts(rank if plan.axis == "dp" else 0, 256), 0
        if plan.resume_step:
            self.resume()

    def shard(self) -> None:
        """Keep this rank's part of the model."""
        if self.plan.axis == "tp":
            share_width(self.model, self.group, self.rank, self.plan.world)
        if self.plan.axis == "pp":
            self.model.blocks = self.model.blocks[2 * self.rank : 2 * self.rank + 2]
            if not self.first:
                del self.model.embedding
            if not self.last:
                del self.model.head

    def batch(self) -> Batch:
        """The next batch; all stages and shards read the same."""
        self.work.data()
        start = self._batch_number * BATCH % (len(self._text) - BATCH)
        self._batch_number += 1
        rows = self._text[start : start + BATCH]
        return rows[:, :-1], rows[:, 1:]

    def train(self) -> None:
        """All steps."""
        tokens = MICROBATCHES * BATCH * CONTEXT
        for number in range(self.plan.resume_step, self.plan.steps):
            with self.watch.step(tokens=tokens) as step:
                self.train_step(step)
            self.diary.step(tokens)
            self.between(number + 1)

    def train_step(self, step: Any) -> None:
        """One step: all forwards, then all backwards."""
        losses = []
        ends = [self.forward(step) for _ in range(MICROBATCHES)]
        for number, (came, output) in enumerate(ends):
            if self.parallel is not None:
                self.parallel.enabled = number == MICROBATCHES - 1
            self.backward(step, came, output)
            if self.last:
                losses.append(output.item() * MICROBATCHES)
        with step.phase("optimizer"):
            if self.parallel is not None:
                self.parallel.finish()
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.diary.note(lr=self.schedule.get_last_lr()[0])
        self.schedule.step()
        if losses:
            loss = sum(losses) / MICROBATCHES
            step.record(loss=loss, perplexity=math.exp(loss))
            self.diary.note(perplexity=math.exp(loss))
            self.diary.microbatch(loss)

    def forward(self, step: Any) -> tuple[Tensor | None, Tensor]:
        """Run one microbatch: receive from the previous stage, compute, send to the next."""
        came = None if self.first else receive(self.rank - 1)
        with step.phase("data"):
            tokens, targets = self.batch()
        with step.phase("forward"):
            self.work.forward()
            x = self.model.embedding(tokens) if came is None else came
            for block in self.model.blocks:
                x = block(x)
            if self.last:
                x = loss_of(self.model.head(x), targets) / MICROBATCHES
        if not self.last:
            send(x, self.rank + 1)
        return came, x

    def backward(self, step: Any, came: Tensor | None, output: Tensor) -> None:
        """One microbatch."""
        gradient = None if self.last else receive(self.rank + 1)
        with step.phase("backward"):
            torch.autograd.backward(output, grad_tensors=gradient)
        if came is not None and came.grad is not None:
            send(came.grad, self.rank - 1)

    def between(self, step: int) -> None:
        """Evaluate and save between the steps that the plan names."""
        plan = self.plan
        if plan.eval_every and step % plan.eval_every == 0:
            with self.diary.pause("eval"):
                self.model.eval()
                self.work.evaluation(plan.pause_seconds)
                self.validate()
                self.model.train()
        if plan.save_every and step % plan.save_every == 0:
            state = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "step": step,
            }
            with self.diary.pause("save"):
                torch.save(state, self.checkpoint(step))
            self.diary.note(saved=str(self.checkpoint(step)))

    @torch.no_grad()
    def validate(self) -> None:
        """Evaluate one batch; the last stage has the loss."""
        _, output = self.forward(NullWatch())
        if self.last:
            loss = output.item() * MICROBATCHES
            self.watch.record_evaluation({"val_loss": loss})
            self.diary.evaluated(loss)

    def checkpoint(self, step: int) -> Path:
        """Return the path of this rank's checkpoint after so many steps."""
        return Path(self.plan.folder, f"weights-{self.rank}-{step}.pt")

    def resume(self) -> None:
        """Continue from the checkpoint of the plan."""
        state = torch.load(self.checkpoint(self.plan.resume_step))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.watch.start_at(state["step"])


def send(tensor: Tensor, peer: int) -> None:
    """Send a tensor to another stage and wait until it is sent."""
    exchange(dist.P2POp(dist.isend, tensor.detach(), peer))


def receive(peer: int) -> Tensor:
    """Wait for a tensor of another stage."""
    tensor = torch.empty(BATCH, CONTEXT, WIDTH, requires_grad=True)
    exchange(dist.P2POp(dist.irecv, tensor, peer))
    return tensor


def exchange(operation: dist.P2POp) -> None:
    """Exchange in a batch of one operation, as picotron does."""
    for request in dist.batch_isend_irecv([operation]):
        request.wait()


def main() -> None:
    """Train and write the diary."""
    plan, rank = read_plan(), int(os.environ["RANK"])
    torch.set_num_threads(1)
    SlowStorage(plan.pause_seconds).install()
    dist.init_process_group("gloo")
    loop = Loop(plan, rank)
    loop.train()
    loop.watch.finish()
    loop.watch.close()
    loop.diary.write(loop.model.parameters(), ops=OPS[plan.axis], step_bytes=0)
    leave()


if __name__ == "__main__":
    main()
