"""An Accelerate loop or a Lightning fit on two ranks, watched by its adapter if asked to."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

SLOW_RANK, SLOW_SECONDS = int(os.environ.get("SLOW_RANK", "-1")), 0.05
RANK = int(os.environ.get("RANK", "0"))


class Network(torch.nn.Sequential):
    """Two layers; slow on one rank."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of shape (batch, 4)."""
        if self.training and RANK == SLOW_RANK:
            time.sleep(SLOW_SECONDS)
        answer: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return answer


def network() -> Network:
    """The same weights on each call."""
    torch.manual_seed(0)
    return Network(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def loader() -> DataLoader[Any]:
    """14 batches for each of two ranks."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(112, 16), torch.randint(0, 4, (112,)))
    return DataLoader(data, batch_size=4)


def accelerate(folder: Path, *, watched: bool) -> list[float]:
    """Losses of an Accelerate loop that accumulates two batches per step."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, batches = accelerator.prepare(model, optimizer, loader())
    watch = None
    if watched:
        from stepwatch.hooks.adapters.accelerate import watch_accelerator

        watch = watch_accelerator(accelerator, job="adapted")
    losses = []
    for _ in range(2):
        for inputs, targets in batches:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    accelerator.save_state(str(folder / "state"))
    if watch is not None:
        watch.finish()
        watch.close()
    return losses


def lightning(folder: Path, *, watched: bool) -> list[float]:
    """Losses of a Lightning fit."""
    import lightning.pytorch as pl

    losses: list[float] = []

    class Module(pl.LightningModule):  # type: ignore[misc]
        """The network as Lightning wants it."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            """Loss of a batch."""
            loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            losses.append(loss.item())
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            """Evaluate a batch."""
            self.network(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """The optimizer."""
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callbacks = []
    if watched:
        from stepwatch.hooks.adapters.lightning import StepwatchCallback

        callbacks = [StepwatchCallback("adapted")]
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", "1")),
        strategy="ddp",
        max_epochs=2,
        callbacks=callbacks,
        default_root_dir=str(folder),
        **quiet,
    )
    trainer.fit(Module(), loader(), loader())
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    out = Path(sys.argv[2])
    train = {"accelerate": accelerate, "lightning": lightning}[sys.argv[1]]
    told = train(out, watched=sys.argv[3:] == ["adapter"])
    (out / f"{RANK}.json").write_text(json.dumps(told))
    time.sleep(0.3)  # see hf.py
