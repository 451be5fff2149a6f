"""A script of the Hugging Face Trainer on a tiny GPT-2 with random weights."""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, RATE, VOCABULARY, WARM_UP_STEPS, WIDTH
from tests.trainers.programs.plan import Plan, read_plan
from tests.trainers.programs.rows import Rows
from tests.trainers.programs.work import SlowStorage, Work, leave


class Samples(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Rows as the Trainer wants them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        row = self._rows[index][:CONTEXT]
        return {"input_ids": row, "labels": row}


class Diarist(Trainer):  # type: ignore[misc]
    """A Trainer that keeps a diary, as users subclass it."""

    diary: Diary

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run one step, without accumulation."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        perplexity = math.exp(loss.item())
        self.log({"perplexity": perplexity})
        self.diary.note(lr=self.optimizer.param_groups[0]["lr"], perplexity=perplexity)
        self.diary.microbatch(loss.item())
        self.diary.step(BATCH * CONTEXT)
        return loss

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate; every rank takes part."""
        with self.diary.pause("eval"):
            answer: dict[str, float] = super().evaluate(*args, **kwargs)
        self.diary.evaluated(answer["eval_loss"])
        return answer

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        with self.diary.pause("save"):
            super()._save_checkpoint(*args, **kwargs)
        self.diary.note(saved=f"{self.args.output_dir}/checkpoint-{self.state.global_step}")


def settings(plan: Plan) -> TrainingArguments:
    """Return a user's settings."""
    return TrainingArguments(
        output_dir=f"{plan.folder}/out",
        max_steps=plan.steps,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        logging_steps=1,
        learning_rate=RATE,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=WARM_UP_STEPS,
        eval_strategy="steps" if plan.eval_every else "no",
        eval_steps=plan.eval_every or None,
        save_strategy="steps" if plan.save_every else "no",
        save_steps=plan.save_every or 1,
        include_num_input_tokens_seen=True,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )


def callbacks(plan: Plan) -> list[Any]:
    """The adapter, where the plan wants it."""
    if plan.adapter != "callback":
        return []
    from stepwatch.hooks.adapters.transformers import StepwatchCallback

    return [StepwatchCallback(plan.job)]


def main() -> None:
    """Train and write the diary."""
    plan, rank = read_plan(), int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    diary = Diary(plan, rank)
    work = Work(diary)
    SlowStorage(plan.pause_seconds).install()
    sizes = GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_layer=2, n_head=2
    )
    model = GPT2LMHeadModel(sizes)
    model.register_forward_pre_hook(
        lambda module, _: work.forward() if module.training else work.evaluation(plan.pause_seconds)
    )
    trainer = Diarist(
        model=model,
        args=settings(plan),
        train_dataset=Samples(Rows(4096, work)),
        eval_dataset=Samples(Rows(BATCH * plan.world)),  # one long batch for each rank
        callbacks=callbacks(plan),
    )
    trainer.diary = diary
    folder = f"{trainer.args.output_dir}/checkpoint-{plan.resume_step}"
    trainer.train(resume_from_checkpoint=folder if plan.resume_step else None)
    size = sum(4 * parameter.numel() for parameter in model.parameters())
    diary.write(model.parameters(), ops=["all_reduce"], step_bytes=size)
    leave()


if __name__ == "__main__":
    main()
