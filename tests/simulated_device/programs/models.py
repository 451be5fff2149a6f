"""Trains one small transformer on two ranks in a named way and writes the losses."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

from tests.simulated_device import device

from .report import write

WIDTH, HEADS, TOKENS, LENGTH, BATCH, STEPS = 16, 2, 32, 8, 8, 5


class Block(nn.Module):
    """One layer, whose attention is spelled out: the CPU would fuse it and the device would not."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        """Return hidden states of the same shape (batch, length, width)."""
        heads = self.attention(self.norm(hidden)).unflatten(-1, (3, HEADS, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-1, -2) / (WIDTH / HEADS) ** 0.5).softmax(-1)
        mixed: Tensor = (weights @ value).transpose(1, 2).flatten(2)
        result: Tensor = hidden + self.feed(hidden + mixed)
        return result


def layers() -> list[nn.Module]:
    """Return embedding, two blocks and head with the weights that every way starts from."""
    torch.manual_seed(0)
    return [nn.Embedding(TOKENS, WIDTH), Block(), Block(), nn.Linear(WIDTH, TOKENS)]


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of shape (batch, length)."""
    source = torch.Generator().manual_seed(100 * step + rank)
    text = torch.randint(0, TOKENS, (BATCH, LENGTH + 1), generator=source)
    return text[:, :-1], text[:, 1:]


def criterion(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimiser(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW; foreach on both devices, whose defaults differ."""
    return torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)


def replicas(where: str, wrap: Callable[[nn.Sequential], nn.Module]) -> list[float]:
    """Train a wrapped model on each rank's own batches; the mean loss of each step."""
    model = wrap(nn.Sequential(*layers()).to(where))
    optimizer, losses = optimiser(model), []
    for step in range(STEPS):
        inputs, targets = (tensor.to(where) for tensor in batch(step, dist.get_rank()))
        loss = criterion(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
    return losses


def shard_blocks(model: nn.Sequential) -> nn.Module:
    """Shard the blocks and the rest with FSDP2."""
    mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, Block):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def hybrid(model: nn.Sequential) -> nn.Module:
    """Shard within pairs of ranks, replicate across them: two groups."""
    kind = next(model.parameters()).device.type
    mesh = init_device_mesh(kind, (2, 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model, mesh=mesh)
    return model


def pipeline(where: str, replicate: bool = False) -> list[float]:
    """Train two stages with 1F1B, each replicated where there are four ranks."""
    mesh = init_device_mesh(where, (2, 2 if replicate else 1), mesh_dim_names=("pp", "dp"))
    stage_number = mesh["pp"].get_local_rank()
    chunk: nn.Module = nn.Sequential(*layers()[2 * stage_number : 2 * stage_number + 2]).to(where)
    if replicate:
        fully_shard(chunk, mesh=mesh["dp"])
    stage = PipelineStage(chunk, stage_number, 2, torch.device(where), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, 4, loss_fn=criterion)
    optimizer, losses = optimiser(chunk), []
    for step in range(STEPS):
        inputs, targets = (tensor.to(where) for tensor in batch(step, mesh["dp"].get_local_rank()))
        parts: list[Tensor] = []
        if stage_number == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=parts)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.stack(parts).mean().item() if parts else 0.0)
    return losses


WAYS: dict[str, Callable[[str], list[float]]] = {
    "ddp": lambda where: replicas(where, DistributedDataParallel),
    "fsdp": lambda where: replicas(where, shard_blocks),
    "hsdp": lambda where: replicas(where, hybrid),
    "pipeline": pipeline,
    "pipeline-fsdp": lambda where: pipeline(where, replicate=True),
}


def main() -> None:
    """Train in the ways that are named, on the CPU and on the device."""
    device.load()
    device.set_default_seconds(20e-6)
    device.set_link(200e-6, 1e9)
    dist.init_process_group("cpu:gloo,sim:simccl")
    write({way: [WAYS[way](where) for where in ("cpu", device.NAME)] for way in sys.argv[2:]})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
