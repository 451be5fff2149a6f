"""An Accelerate loop; two batches make a step."""

from __future__ import annotations

import math
from typing import Any

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, RATE, LanguageModel, warm_up
from tests.trainers.programs.plan import Plan
from tests.trainers.programs.rows import Rows
from tests.trainers.programs.watching import NullWatch
from tests.trainers.programs.work import Work, run_to_end

MICROBATCHES = 2


def watch_of(plan: Plan, accelerator: Accelerator) -> Any:
    """The adapter, where the plan wants it."""
    if plan.adapter != "callback":
        return NullWatch()
    from stepwatch.hooks.adapters.accelerate import watch_accelerator

    return watch_accelerator(accelerator, job=plan.job, tokens=BATCH * CONTEXT)


class Loop:
    """One rank of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=MICROBATCHES)
        self.diary = Diary(plan, self.accelerator.process_index)
        self.work = Work(self.diary)
        model = LanguageModel()
        self.work.inside(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
        batches = DataLoader(Rows(1 << 14, self.work), batch_size=BATCH)
        validation = DataLoader(Rows(BATCH * plan.world), batch_size=BATCH)
        self.model, self.optimizer, self.batches, self.validation = self.accelerator.prepare(
            model, optimizer, batches, validation
        )
        self.schedule = self.accelerator.prepare(schedule)
        self.watch = watch_of(plan, self.accelerator)
        if plan.resume_step:
            self.accelerator.load_state(f"{plan.folder}/state-{plan.resume_step}")

    def train(self) -> None:
        """All steps."""
        for batch in self.batches:
            with self.accelerator.accumulate(self.model):
                loss = self.model(batch[:, :-1], batch[:, 1:])
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                rate = self.optimizer.param_groups[0]["lr"]
                self.schedule.step()
                self.optimizer.zero_grad()
            self.diary.microbatch(loss.item())
            if self.accelerator.sync_gradients:
                perplexity = math.exp(loss.item())
                self.accelerator.log({"perplexity": perplexity})
                self.diary.note(lr=rate, perplexity=perplexity)
                self.diary.step(MICROBATCHES * BATCH * CONTEXT)
                self.between(self.diary.steps)
                if self.diary.steps == self.plan.steps:
                    return

    def between(self, step: int) -> None:
        """Evaluate and save between the steps that the plan names."""
        plan = self.plan
        if plan.eval_every and step % plan.eval_every == 0:
            with self.diary.pause("eval"):
                self.evaluate()
        if plan.save_every and step % plan.save_every == 0:
            with self.diary.pause("save"):
                self.accelerator.save_state(f"{plan.folder}/state-{step}")
            self.diary.note(saved=f"{plan.folder}/state-{step}")

    @torch.no_grad()
    def evaluate(self) -> None:
        """Evaluate one long batch on each rank."""
        self.model.eval()
        for batch in self.validation:
            self.work.evaluation(self.plan.pause_seconds)
            loss = self.model(batch[:, :-1], batch[:, 1:]).item()
            self.accelerator.log({"val_loss": loss})
            self.diary.evaluated(loss)
        self.model.train()


if __name__ == "__main__":
    run_to_end(Loop, lambda loop: loop.model)
