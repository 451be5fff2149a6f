"""A DeepSpeed loop, ZeRO 1, on CPUs; two batches make a step."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, RATE, LanguageModel, warm_up
from tests.trainers.programs.plan import Plan
from tests.trainers.programs.rows import Rows
from tests.trainers.programs.watching import NullWatch
from tests.trainers.programs.work import Work, run_to_end

MICROBATCHES = 2


def watch_of(plan: Plan, engine: Any) -> Any:
    """The adapter, where the plan wants it."""
    if plan.adapter != "callback":
        return NullWatch()
    from stepwatch.hooks.adapters.deepspeed import watch_engine

    return watch_engine(engine, job=plan.job)


def config_of(plan: Plan) -> dict[str, Any]:
    """DeepSpeed's configuration, with a monitor that writes to the plan's folder."""
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": MICROBATCHES,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "csv_monitor": {"enabled": True, "output_path": plan.folder, "job_name": "monitor"},
    }


class Loop:
    """One rank of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        self.diary = Diary(plan, rank)
        self.work = Work(self.diary)
        model = LanguageModel()
        self.work.inside(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        self.engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=optimizer,
            lr_scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up),
            config=config_of(plan),
        )
        self.batches = DataLoader(Rows(1 << 14, self.work, rank), batch_size=BATCH)
        self.validation = DataLoader(Rows(BATCH, rank=rank), batch_size=BATCH)
        self.watch = watch_of(plan, self.engine)
        self.saves = Path(plan.folder, "saves")
        if plan.resume_step:
            self.engine.load_checkpoint(str(self.saves), tag=f"step-{plan.resume_step}")

    def train(self) -> None:
        """All steps."""
        for batch in self.batches:
            loss = self.engine(batch[:, :-1], batch[:, 1:])
            self.engine.backward(loss)
            self.diary.microbatch(loss.item())
            is_step = self.engine.is_gradient_accumulation_boundary()
            if is_step:
                perplexity = math.exp(loss.item())
                self.diary.note(lr=self.engine.get_lr()[0], perplexity=perplexity)
                self.log("perplexity", perplexity)
            self.engine.step()
            if is_step:
                self.diary.step(MICROBATCHES * BATCH * CONTEXT)
                self.between(self.diary.steps)
                if self.diary.steps == self.plan.steps:
                    return

    def log(self, name: str, value: float) -> None:
        """Log a number by DeepSpeed's monitor."""
        self.engine.monitor.write_events([(f"Train/{name}", value, self.engine.global_samples)])

    def between(self, step: int) -> None:
        """Evaluate and save between the steps that the plan names."""
        plan = self.plan
        if plan.eval_every and step % plan.eval_every == 0:
            with self.diary.pause("eval"):
                self.evaluate()
        if plan.save_every and step % plan.save_every == 0:
            with self.diary.pause("save"):
                self.engine.save_checkpoint(str(self.saves), tag=f"step-{step}")
            self.diary.note(saved=str(self.saves / f"step-{step}"))

    @torch.no_grad()
    def evaluate(self) -> None:
        """Evaluate one long batch on each rank."""
        self.engine.eval()
        for batch in self.validation:
            self.work.evaluation(self.plan.pause_seconds)
            loss = self.engine(batch[:, :-1], batch[:, 1:]).item()
            self.log("val_loss", loss)
            self.diary.evaluated(loss)
        self.engine.train()


if __name__ == "__main__":
    run_to_end(Loop, lambda loop: loop.engine.module)
