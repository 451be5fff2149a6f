"""An unmodified Hugging Face Trainer script on a tiny model with random weights."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

SLOW_RANK, SLOW_SECONDS = int(os.environ.get("SLOW_RANK", "-1")), 0.15


def dawdle(model: torch.nn.Module, arguments: object) -> None:
    """Make forward slow on one rank."""
    if model.training and int(os.environ.get("RANK", "0")) == SLOW_RANK:
        time.sleep(SLOW_SECONDS)


def trainer(folder: Path, **options: Any) -> Trainer:
    """A Trainer of 28 steps."""
    torch.manual_seed(0)
    sizes = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(sizes)
    model.register_forward_pre_hook(dawdle)
    rows = torch.randint(0, 64, (48, 16)).tolist()
    data = [{"input_ids": row, "labels": row} for row in rows]
    callbacks = options.pop("callbacks", None)
    settings = {
        "output_dir": str(folder / "out"),
        "max_steps": 28,
        "per_device_train_batch_size": 2,
        "logging_steps": 1,
        "eval_strategy": "steps",
        "eval_steps": 14,
        "save_steps": 14,
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        **options,
    }
    arguments = TrainingArguments(**settings)
    return Trainer(
        model=model,
        args=arguments,
        train_dataset=data,
        eval_dataset=data[:8],
        callbacks=callbacks,
    )


def callbacks() -> list[Any]:
    """Return the callbacks of a user who wants losses and tokens too."""
    from stepwatch.hooks.adapters.transformers import StepwatchCallback

    return [StepwatchCallback("adapted")]


def main(folder: Path, *, adapted: bool) -> None:
    """Train; write this rank's logged losses to `folder`."""
    torch.set_num_threads(1)
    options = {"callbacks": callbacks(), "include_num_input_tokens_seen": True} if adapted else {}
    hf_trainer = trainer(folder, **options)
    hf_trainer.train()
    losses = [entry["loss"] for entry in hf_trainer.state.log_history if "loss" in entry]
    name = os.environ.get("RANK", "0")
    (folder / f"{name}.json").write_text(json.dumps(losses))
    if torch.distributed.is_initialized():
        # A process group that goes while its thread still drops the last call waits for that thread
        # with the interpreter's lock held, and the thread for the lock: torch 2.13, Gloo.
        time.sleep(0.3)
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), adapted=sys.argv[2:] == ["callback"])
