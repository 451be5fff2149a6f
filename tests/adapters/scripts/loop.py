"""Loops of four frameworks on two ranks, watched by the framework's adapter if asked to."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SLOW_RANK, SLOW_SECONDS = int(os.environ.get("SLOW_RANK", "-1")), 0.05
if TYPE_CHECKING:
    from stepwatch.hooks import Watch  # a run without hooks imports nothing of them

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
    """24 batches for each of two ranks."""
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(192, 16), torch.randint(0, 4, (192,)))
    return DataLoader(data, batch_size=4)


def sharded_loader() -> DataLoader[Any]:
    """The batches of this rank, where no framework divides them."""
    data = loader().dataset
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data))


def end(watch: Watch | None) -> None:
    """Tell the watch, if there is one, that the run is over."""
    if watch is not None:
        watch.finish()
        watch.close()


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
            if accelerator.sync_gradients:
                accelerator.log({"train_loss": losses[-1], "note": "not a number"})
    accelerator.save_state(str(folder / "state"))
    end(watch)
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
            self.log("train_loss", loss)
            if index == 3:
                self.log("seldom", float(index))
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            """Evaluate a batch."""
            loss = torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])
            self.log("val_loss", loss, sync_dist=True)

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


def deepspeed(folder: Path, *, watched: bool) -> list[float]:
    """Losses of a DeepSpeed loop, ZeRO 1, that accumulates two batches per step."""
    import deepspeed as ds

    model = network()
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "csv_monitor": {"enabled": True, "output_path": str(folder), "job_name": "log"},
        "steps_per_print": 1,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine, *_ = ds.initialize(model=model, optimizer=optimizer, config=config)
    batches = sharded_loader()
    watch = None
    if watched:
        from stepwatch.hooks.adapters.deepspeed import watch_engine

        watch = watch_engine(engine, job="adapted")
    losses = []
    for _ in range(2):
        for inputs, targets in batches:
            loss = torch.nn.functional.cross_entropy(engine(inputs), targets)
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
    engine.save_checkpoint(str(folder / "state"))
    end(watch)
    return losses


def megatron(folder: Path, *, watched: bool) -> list[float]:
    """Return the losses of a loop around a `train_step` of Megatron-LM's signature, with two
    microbatches.

    Megatron's own schedules need a CUDA device, so this schedule is the test's own.
    """
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = sharded_loader()
    losses = []

    def forward_step(iterator: Any, module: torch.nn.Module) -> torch.Tensor:
        inputs, targets = next(iterator)
        return torch.nn.functional.cross_entropy(module(inputs), targets)

    def train_step(
        forward: Any, iterator: Any, module: torch.nn.Module, optimizer: Any, *_: Any
    ) -> tuple[dict[str, torch.Tensor], int, bool, bool, int, float, None]:
        for _microbatch in range(2):
            loss = forward(iterator, module)
            loss.backward()
            losses.append(loss.item())
        norm = float(torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0))
        optimizer.step()
        optimizer.zero_grad()
        return {"lm loss": loss.detach()}, 0, False, False, 0, norm, None

    step, watch = train_step, None
    if watched:
        from stepwatch.hooks import Watch
        from stepwatch.hooks.adapters.megatron import watch_train_step

        watch = Watch.from_env(job="adapted")
        step = watch_train_step(train_step, watch)
    for _ in range(2):
        iterator = iter(batches)
        for _step in range(len(batches) // 2):
            step(forward_step, iterator, model, optimizer, None, None)
    end(watch)
    dist.destroy_process_group()
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    out = Path(sys.argv[2])
    trainers = {
        "accelerate": accelerate,
        "lightning": lightning,
        "deepspeed": deepspeed,
        "megatron": megatron,
    }
    train = trainers[sys.argv[1]]
    losses = train(out, watched=sys.argv[3:] == ["adapter"])
    (out / f"{RANK}.json").write_text(json.dumps(losses))
    time.sleep(0.3)  # see hf.py
