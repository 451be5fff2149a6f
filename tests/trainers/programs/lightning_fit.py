"""A Lightning script; two batches make a step. Lightning starts the ranks unless a launcher did."""

from __future__ import annotations

import math
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, RATE, LanguageModel, warm_up
from tests.trainers.programs.plan import Plan, read_plan
from tests.trainers.programs.rows import Rows
from tests.trainers.programs.work import SlowStorage, Work, leave

MICROBATCHES = 2


class Module(pl.LightningModule):  # type: ignore[misc]
    """The model as Lightning wants it, with a diary."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.model = plan, LanguageModel()
        self.diary: Diary
        self.work: Work
        self._perplexity = math.nan

    def open(self, rank: int) -> None:
        """Open the diary once Lightning's own launcher has assigned the rank."""
        self.diary = Diary(self.plan, rank)
        self.work = Work(self.diary)
        self.work.inside(self.model)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        """Loss of a batch."""
        loss: torch.Tensor = self.model(batch[:, :-1], batch[:, 1:])
        self._perplexity = math.exp(loss.item())
        self.log("perplexity", self._perplexity)
        self.diary.microbatch(loss.item())
        return loss

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """Note the numbers of the step."""
        self.diary.note(lr=optimizer.param_groups[0]["lr"], perplexity=self._perplexity)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A step is done if the optimizer stepped."""
        if self.trainer.global_step != self.diary.steps:
            self.diary.step(MICROBATCHES * BATCH * CONTEXT)

    def validation_step(self, batch: torch.Tensor, index: int) -> None:
        """Validate one long batch."""
        with self.diary.pause("eval"):
            self.work.evaluation(self.plan.pause_seconds)
            loss = self.model(batch[:, :-1], batch[:, 1:])
            self.log("val_loss", loss)
        self.diary.evaluated(loss.item())

    def configure_optimizers(self) -> dict[str, Any]:
        """The optimizer, and the schedule of its learning rate."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class Checkpoints(ModelCheckpoint):  # type: ignore[misc]
    """Keeps every checkpoint, and notes each."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.folder, "{step}", every_n_train_steps=plan.save_every, save_top_k=-1)

    def _save_checkpoint(self, trainer: Any, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        trainer.lightning_module.diary.note(saved=filepath)


class Storage(SlowStorage):
    """Notes how long saves take, since Lightning calls them by itself."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.plan.pause_seconds)
        self._module = module

    def wait(self) -> None:
        """Take long, and note it in the diary."""
        with self._module.diary.pause("save"):
            super().wait()


def callbacks(plan: Plan) -> list[Any]:
    """Checkpoints, and the adapter where the plan wants it."""
    hooks: list[Any] = []
    if plan.save_every:
        hooks.append(Checkpoints(plan))
    if plan.adapter == "callback":
        from stepwatch.hooks.adapters.lightning import StepwatchCallback

        hooks.append(StepwatchCallback(plan.job, tokens=BATCH * CONTEXT))
    return hooks


def trainer_of(plan: Plan) -> Any:
    """Return a user's trainer."""
    return pl.Trainer(
        accelerator="cpu",
        devices=plan.world,
        strategy="ddp",
        max_steps=plan.steps,
        accumulate_grad_batches=MICROBATCHES,
        callbacks=callbacks(plan),
        enable_checkpointing=bool(plan.save_every),
        val_check_interval=MICROBATCHES * plan.eval_every or None,
        check_val_every_n_epoch=None,
        limit_val_batches=1 if plan.eval_every else 0,
        num_sanity_val_steps=0,
        default_root_dir=plan.folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def main() -> None:
    """Train and write the diary."""
    plan = read_plan()
    torch.set_num_threads(1)
    module = Module(plan)
    trainer = trainer_of(plan)
    module.open(trainer.global_rank)
    Storage(module).install()
    batches = DataLoader(Rows(1 << 14, module.work), batch_size=BATCH)
    validation = DataLoader(Rows(BATCH * plan.world), batch_size=BATCH)
    path = f"{plan.folder}/step={plan.resume_step}.ckpt" if plan.resume_step else None
    trainer.fit(module, batches, validation, ckpt_path=path)
    size = sum(4 * parameter.numel() for parameter in module.parameters())
    module.diary.write(module.parameters(), ops=["all_reduce"], step_bytes=size)
    leave()


if __name__ == "__main__":
    main()
