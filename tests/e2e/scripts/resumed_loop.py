"""A plain torch loop that saves, is killed, and resumes; the command line says what it restores."""

from __future__ import annotations

import argparse
import os
import signal
from contextlib import nullcontext
from pathlib import Path

import torch

SAVED, KILLED, END = 60, 75, 90
WARM_UP = 200


def main() -> None:
    """Train up to `KILLED` steps from the beginning, or up to `END` from the checkpoint."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", default="")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--restore", default="", help="model, optimizer, rate, data")
    parser.add_argument("--optimizer", default="Adam")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = getattr(torch.optim, options.optimizer)(model.parameters(), lr=0.02)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 + step / WARM_UP)
    parts = {"model": model, "optimizer": optimizer, "rate": warm_up}
    place = options.folder / f"step-{SAVED}.pt"
    first = batch = 0
    if place.exists():
        saved = torch.load(place)
        for name in set(options.restore.split(",")) & parts.keys():
            parts[name].load_state_dict(saved[name])
        first, batch = SAVED, SAVED if "data" in options.restore else 0
    watch = None
    if options.job:
        from stepwatch.hooks import Watch

        watch = Watch.from_env(job=options.job)
        watch.attach(model=model, optimizer=optimizer)
    for step in range(first, KILLED if first == 0 else END):
        if step == SAVED and not place.exists():
            torch.save({name: part.state_dict() for name, part in parts.items()}, place)
        inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(batch))
        with watch.step(number=step) if watch is not None else nullcontext() as recorded:
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if recorded is not None:
                recorded.record(loss=loss.item(), sample=batch)
        warm_up.step()
        batch += 1
    if first == 0:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
