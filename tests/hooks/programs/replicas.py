"""A tiny trainer in several ways, with one fault: what a bare loop with three lines looks like."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_sgd
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.optim import swa_utils

from stepwatch.hooks import Watch
from stepwatch.hooks.auto import follow

WAY, STEPS = os.environ["WAY"], int(os.environ["STEPS"])
PERIOD, WARMUP = int(os.environ.get("PERIOD", "0")), int(os.environ.get("WARMUP", "0"))
"""Steps between two averagings of the parameters, and with exchanged gradients before."""


SHARD_STEPS = 70
"""Steps in which a rank reads one shard: shard 10 * rank + n comes n-th."""


def place(name: str) -> tuple[int, int]:
    """Rank and step of a fault; nobody and never without one."""
    rank, step = os.environ.get(name, "-1,-1").split(",")
    return int(rank), int(step)


class Model(torch.nn.Module):
    """Two layers with names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 64)
        self.last = torch.nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (batch, 8)."""
        out: torch.Tensor = self.last(torch.relu(self.first(x)))
        return out


def parallel(model: Model) -> Any:
    """The model as the way under test wraps it."""
    if WAY.startswith("ddp"):
        view = WAY == "ddp-view"
        return torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=view, init_sync="UNEQUAL" not in os.environ
        )
    if WAY in ("fsdp2", "hsdp"):
        shape, names = ((4,), ("shard",)) if WAY == "fsdp2" else ((2, 2), ("replicate", "shard"))
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        fully_shard(model.last, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def with_local_sgd(model: Any, optimizer: Any) -> Any:
    """The optimizer of torch's local SGD: each rank keeps its gradients after the warm-up."""
    torch_sgd: Any = local_sgd
    groups: Any = dist
    own, _ = groups.new_subgroups(group_size=1)
    state = torch_sgd.PostLocalSGDState(None, own, WARMUP)
    model.register_comm_hook(state, torch_sgd.post_localSGD_hook)
    averager = PeriodicModelAverager(period=PERIOD, warmup_steps=WARMUP)
    return PostLocalSGDOptimizer(optimizer, averager)


def average(model: Any, number: int) -> None:
    """Average the parameters by hand at the end of each period."""
    if WAY == "ddp-no-sync" and number >= WARMUP and (number + 1) % PERIOD == 0:
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()


def set_rate(optimizer: Any, number: int) -> None:
    """Warm up for 20 steps, then follow a cosine; from one step on the rate may be multiplied."""
    if "SCHEDULE" in os.environ:
        cosine = 0.55 + 0.45 * math.cos(number / 400 * math.pi)
        rate = 1.5 * ((number + 1) / 20 if number < 20 else cosine)
        first, factor = (float(part) for part in os.environ.get("RATE", "inf,1").split(","))
        optimizer.param_groups[0]["lr"] = rate * factor if number >= first else rate


def forward(model: Any, rank: int, number: int, inputs: torch.Tensor) -> torch.Tensor:
    """The outputs; a bad batch raises."""
    if (rank, number) == place("SKIP"):
        raise ValueError("bad batch")
    output: torch.Tensor = (model.module if WAY == "ddp-module" else model)(inputs)
    return output


def main() -> None:
    """Train; write this rank's losses."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank if "UNEQUAL" in os.environ else 0)
    watch = Watch.from_env(job="tiny")
    if "AUTO" in os.environ:
        follow(watch, boundaries=False)
    model = Model()
    model_watched = parallel(model)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if "SCHEDULE" in os.environ:
        optimizer = torch.optim.SGD(model.parameters(), lr=1.5)
    scale = float(os.environ.get("SCALE", "0"))
    scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=bool(scale))
    half = torch.autocast("cpu", torch.float16, enabled=bool(scale))
    if WAY == "ddp-local-sgd":
        optimizer = with_local_sgd(model_watched, optimizer)
    models = [model_watched]
    if "AUTO" not in os.environ:
        watched = optimizer if "OPTIMIZER" in os.environ else None
        if "EMA" in os.environ:
            averages: Any = swa_utils
            decay = averages.get_ema_multi_avg_fn(float(os.environ["EMA"]))
            models.append(averages.AveragedModel(model_watched, multi_avg_fn=decay))
        watch.attach(model=models, optimizer=watched)
    losses = []
    skipped = int(rank == place("SKIP")[0])  # one step more: its replicas wait for as many updates
    for number in range(STEPS + skipped):
        keep = WAY == "ddp-no-sync" and number >= WARMUP
        waits = WAY == "ddp-accumulate" and (number + 1) % PERIOD > 0
        no_sync = model_watched.no_sync() if keep or waits else contextlib.nullcontext()
        with contextlib.suppress(ValueError), watch.step(tokens=4) as step, no_sync:
            inputs = torch.randn(4, 32, generator=torch.Generator().manual_seed(99 * number + rank))
            shard = 10 * rank + number // SHARD_STEPS
            if shard == int(os.environ.get("DAMAGED_SHARD", "-1")):
                inputs *= 50
            set_rate(optimizer, number)
            with step.phase("forward"), half:
                output = forward(model_watched, rank, number, inputs)
                if (rank, number) == place("BAD"):
                    poison: Any = Poison
                    output = poison.apply(output)
                loss = output.square().mean()
            with step.phase("backward"):
                scaled: Any = scaler.scale(loss)
                scaled.backward()
            if WAY == "own":
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
            if "SCHEDULE" in os.environ:
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
                step.record(grad_norm=norm, epoch=number // 100, sample=4 * number)
            if not waits:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            average(model, number)
            for averaged in models[1:]:
                averaged.update_parameters(model_watched)
            if (rank, number) == place("FLIP"):
                weight: Any = model.first.weight
                local = getattr(weight, "_local_tensor", weight).detach()
                local.view(torch.int32)[1, 2] ^= 1 << 3
            step.record(loss=loss, output={"mean square": loss, "largest": output.max()})
            step.record(lr=optimizer.param_groups[0]["lr"], shard=shard)
        if number % 8 == 7:
            watch.record_evaluation({"val_loss": loss.detach()})
        losses.append(float(loss.detach()).hex())
    watch.finish()
    watch.close()
    Path(os.environ["OUT"], f"{rank}.json").write_text(json.dumps(losses))
    dist.destroy_process_group()
    # torch 2.13 on Gloo: a Reducer that dies last, as the frame ends, joins threads that need the
    # interpreter lock it holds.
    os._exit(0)


class Poison(torch.autograd.Function):
    """Leaves values as they are and makes the last layer's gradient infinite."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The same values."""
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        """Not finite in one place."""
        poisoned = gradients[0].clone()
        poisoned[0, 0] = float("inf")
        return poisoned


if __name__ == "__main__":
    main()
