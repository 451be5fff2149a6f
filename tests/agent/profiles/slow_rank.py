"""Two replicas over Gloo, of which rank 1 is slow by one of five causes, until a file appears.

`slow_rank.py CAUSE FILE`. Work is sized so that the cause dominates any noise of a busy host.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from stepwatch.hooks import Watch

CAUSE, END = sys.argv[1], Path(sys.argv[2])
SLOW = os.environ["RANK"] == "1"
WIDTH = 768 if CAUSE == "operators" else 256
"""Large operators take as long as their arithmetic, so that all are slower by one factor."""
LOCK = threading.Lock()


class MLP(torch.nn.Module):
    def __init__(self, products: int) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.products = products

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(torch.nn.functional.gelu(self.up(hidden)))
        for _ in range(self.products):
            result = result + 0 * (self.up.weight @ self.down.weight).mean()
        return result


class Block(torch.nn.Module):
    def __init__(self, products: int = 0) -> None:
        super().__init__()
        self.norm, self.mlp = torch.nn.LayerNorm(WIDTH), MLP(products)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + torch.as_tensor(self.mlp(self.norm(hidden)))


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if CAUSE == "loader" and SLOW:
            sum(range(300_000))
        return torch.full((WIDTH,), index % 7 / 7)


class Cell:
    """An object in a cycle, which only the collector frees."""

    def __init__(self) -> None:
        self.own = [self]


def hold_lock() -> None:
    while True:
        with LOCK:
            time.sleep(0.3)
        time.sleep(0.002)


def read_shared_state() -> None:
    with LOCK:
        pass


def average(model: torch.nn.Module) -> None:
    """Average the gradients."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient) / 2)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    operator = CAUSE == "operator" and SLOW
    model = torch.nn.Sequential(*[Block(12 if operator and i == 2 else 0) for i in range(4)])
    double = CAUSE == "operators" and SLOW
    if double:
        model = model.double()
    watch = Watch.from_env("profiled")
    # AdamW's square roots take more than twice as long in float64.
    kind = torch.optim.SGD if CAUSE == "operators" else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=1e-4)
    watch.attach(model=model, optimizer=optimizer)
    cells = [Cell() for _ in range(200_000)] if CAUSE == "collection" and SLOW else []
    if CAUSE == "lock" and SLOW:
        threading.Thread(target=hold_lock, daemon=True).start()
    ended = torch.zeros(1)
    for batch in watch.batches(DataLoader(Samples(), batch_size=64)):
        with watch.step():
            if cells:
                gc.collect()
            if CAUSE == "lock":
                read_shared_state()
            loss = model(batch.double() if double else batch).square().mean()
            loss.backward()
            if CAUSE != "operators":  # its copies take as long on both ranks
                average(model)
            optimizer.step()
            optimizer.zero_grad()
        ended[0] = END.exists()
        dist.all_reduce(ended)
        if ended.item():
            break
    watch.close()
    dist.destroy_process_group()
    # Gloo's thread may still hold the tensor of the last all_reduce, and releases it with the
    # GIL. Torch aborts the process if Python ends first: 1 of 36 runs did, without stepwatch.
    time.sleep(0.2)


main()
