"""A loop on a model that FSDP2 shards, saved with torch's distributed checkpoints."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.model import BATCH, CONTEXT, RATE, LanguageModel, texts, warm_up
from tests.trainers.programs.plan import Plan, read_plan
from tests.trainers.programs.rows import Rows
from tests.trainers.programs.watching import watch_of
from tests.trainers.programs.work import SlowStorage, Work, leave


class SlowWriter(FileSystemWriter):
    """Writes to storage that takes long."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(path)
        self._storage = SlowStorage(seconds)

    def write_data(self, *args: Any, **kwargs: Any) -> Any:
        """Write this rank's part."""
        self._storage.wait()
        return super().write_data(*args, **kwargs)


class Loop:
    """One rank of one run."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.diary = plan, Diary(plan, rank)
        self.work = Work(self.diary)
        self.model = LanguageModel()
        self.work.inside(self.model)
        for block in self.model.blocks:
            fully_shard(block)
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, warm_up)
        self.loader = DataLoader(Rows(1 << 12, self.work, rank), batch_size=BATCH)
        self.watch = watch_of(plan)
        self.watch.attach(model=self.model, optimizer=self.optimizer)
        if plan.resume_step:
            self.resume()

    def batches(self) -> Iterator[torch.Tensor]:
        """Batches without end."""
        while True:
            yield from self.loader

    def train(self) -> None:
        """All steps."""
        for batch in self.watch.batches(self.batches()):
            with self.watch.step(tokens=BATCH * CONTEXT) as step:
                self.train_step(batch, step)
            self.diary.step(BATCH * CONTEXT)
            self.between(self.diary.steps)
            if self.diary.steps == self.plan.steps:
                return

    def train_step(self, batch: torch.Tensor, step: Any) -> None:
        """One step."""
        with step.phase("forward"):
            loss = self.model(batch[:, :-1], batch[:, 1:])
        with step.phase("backward"):
            loss.backward()
        with step.phase("optimizer"):
            self.optimizer.step()
            self.optimizer.zero_grad()
        step.record(loss=loss, perplexity=loss.exp())
        rate = self.schedule.get_last_lr()[0]
        self.diary.note(lr=rate, perplexity=math.exp(loss.item()))
        self.diary.microbatch(loss.item())
        self.schedule.step()

    def between(self, step: int) -> None:
        """Evaluate and save between the steps that the plan names."""
        plan = self.plan
        if plan.eval_every and step % plan.eval_every == 0:
            with self.diary.pause("eval"):
                self.evaluate()
        if plan.save_every and step % plan.save_every == 0:
            with self.diary.pause("save"):
                self.save(step)

    @torch.no_grad()
    def evaluate(self) -> None:
        """Compute on all ranks for as long as the plan states."""
        self.model.eval()
        rows = texts(0, BATCH)
        self.work.evaluation(self.plan.pause_seconds)
        loss = self.model(rows[:, :-1], rows[:, 1:]).item()
        self.model.train()
        self.watch.record_evaluation({"val_loss": loss})
        self.diary.evaluated(loss)

    def state(self) -> dict[str, Any]:
        """Return the parts of a checkpoint."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "schedule": self.schedule.state_dict()}

    def save(self, step: int) -> None:
        """Write a distributed checkpoint."""
        path = f"{self.plan.folder}/dcp-{step}"
        dcp: Any = checkpoint
        dcp.save(self.state(), storage_writer=SlowWriter(path, self.plan.pause_seconds))
        self.diary.note(saved=path)

    def resume(self) -> None:
        """Continue from the checkpoint of the plan."""
        dcp: Any = checkpoint
        state = self.state()
        dcp.load(state, checkpoint_id=f"{self.plan.folder}/dcp-{self.plan.resume_step}")
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.schedule.load_state_dict(state["schedule"])
        self.watch.start_at(self.plan.resume_step)


def main() -> None:
    """Train and write the diary."""
    plan, rank = read_plan(), int(os.environ["RANK"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    loop = Loop(plan, rank)
    loop.train()
    loop.watch.finish()
    loop.watch.close()
    shards = loop.model.state_dict().values()  # parameters may be gathered just now
    ops = ["all_gather", "reduce_scatter"]
    loop.diary.write((shard.to_local() for shard in shards), ops=ops, step_bytes=0)
    leave()


if __name__ == "__main__":
    main()
