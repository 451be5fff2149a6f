"""Loops that evaluate and save, and read their own ring meanwhile."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import phase_name

RANK = int(os.environ.get("RANK", "0"))
PAUSE_SECONDS, ACCUMULATED, ROWS, TOKENS = 0.3, 2, 2, 16
phases_seen: dict[str, set[str]] = defaultdict(set)
losses: list[float] = []


def look(when: str) -> None:
    """Stay a while, and note the phase that this rank's ring shows."""
    time.sleep(PAUSE_SECONDS)
    for path in find_rings(places.ring_dir()):
        if path.name == str(RANK):
            phases_seen[when].add(phase_name(RingReader(path).live().phase))


def look_at_save(*_: Any) -> None:
    """Note a save; the state is also collected before training, which is not part of a run."""
    if losses:
        look("save")


class Rows(Dataset[Any]):
    """Rows of one text, as a language model's tokenizer gives them."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = (torch.arange(TOKENS) + index) % 64
        return {"input_ids": ids, "labels": ids}


class Network(torch.nn.Module):
    """A model that takes its time to be evaluated and to be saved."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(64, 32)
        self.out = torch.nn.Linear(32, 64)
        self.register_state_dict_post_hook(look_at_save)  # type: ignore[no-untyped-call]

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss of a batch."""
        if not self.training:
            look("evaluation")
        logits = self.out(self.embedding(input_ids))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        if self.training:
            losses.append(loss.item())
        return {"loss": loss, "logits": logits}


def transformers(folder: Path, *, adapted: bool) -> None:
    """Four steps; an evaluation and a save after the second."""
    from transformers import Trainer, TrainingArguments

    callbacks = []
    if adapted:
        from stepwatch.hooks.adapters.transformers import StepwatchCallback

        callbacks = [StepwatchCallback("adapted")]
    arguments = TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=4,
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=ACCUMULATED,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    Trainer(
        model=Network(),
        args=arguments,
        train_dataset=Rows(64),
        eval_dataset=Rows(8),
        callbacks=callbacks,
    ).train()


def lightning(folder: Path, *, adapted: bool) -> None:
    """Two epochs of four steps, each with an evaluation and a save."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(pl.LightningModule):  # type: ignore[misc]
        """The network as Lightning wants it."""

        def __init__(self) -> None:
            super().__init__()
            self.network = Network()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            """Loss of a batch."""
            loss: torch.Tensor = self.network(**batch)["loss"]
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            """Evaluate a batch."""
            self.network(**batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            """The optimizer."""
            return torch.optim.SGD(self.parameters(), lr=0.1)

    callbacks: list[Any] = [ModelCheckpoint(dirpath=str(folder / "out"))]
    if adapted:
        from stepwatch.hooks.adapters.lightning import StepwatchCallback

        callbacks.append(StepwatchCallback("adapted"))
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", "1")),
        strategy="ddp",
        max_epochs=2,
        accumulate_grad_batches=ACCUMULATED,
        callbacks=callbacks,
        default_root_dir=str(folder),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(
        Module(), DataLoader(Rows(32), batch_size=ROWS), DataLoader(Rows(8), batch_size=ROWS)
    )


def accelerate(folder: Path, *, adapted: bool) -> None:
    """Two rounds of four steps, each with an evaluation and a save."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
    network = Network()
    model, optimizer, batches, held_out = accelerator.prepare(
        network,
        torch.optim.SGD(network.parameters(), lr=0.1),
        DataLoader(Rows(32), batch_size=ROWS),
        DataLoader(Rows(8), batch_size=ROWS),
    )
    watch = None
    if adapted:
        from stepwatch.hooks.adapters.accelerate import watch_accelerator

        watch = watch_accelerator(accelerator, job="adapted")
    for number in range(2):
        model.train()
        for batch in batches:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        for batch in held_out:
            with torch.no_grad():
                model(**batch)
        accelerator.save_state(str(folder / f"out{number}"))
    if watch is not None:
        watch.finish()
        watch.close()


class Looking:
    """Reads the ring when it is pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        look("save")
        return dict, ()


def plain(folder: Path, *, adapted: bool) -> None:
    """A loop in nanoGPT's style: no loader, and rank 0 alone evaluates and saves."""
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = [Rows(ROWS)[index] for index in range(ROWS)]
    batch = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    for number in range(4):
        for _ in range(ACCUMULATED):
            model(**batch)["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 2 and RANK == 0:
            model.eval()
            with torch.no_grad():
                model.module(**batch)
            model.train()  # type: ignore[no-untyped-call]
            weights = dict(model.module.named_parameters())
            torch.save({"model": weights, "look": Looking()}, folder / "out.pt")
    time.sleep(0.3)  # see hf.py
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    out = Path(sys.argv[2])
    trainers = {
        "plain": plain,
        "transformers": transformers,
        "lightning": lightning,
        "accelerate": accelerate,
    }
    trainers[sys.argv[1]](out, adapted=sys.argv[3:] == ["adapter"])
    sorted_phases = {name: sorted(phases) for name, phases in phases_seen.items()}
    (out / f"{RANK}.json").write_text(json.dumps({"seen": sorted_phases, "losses": losses}))
    time.sleep(0.3)  # see hf.py
