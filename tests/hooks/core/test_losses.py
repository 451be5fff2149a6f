"""A run's losses are the same bits without hooks and on either core."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.hooks.core import choice

PROGRAM = """
import torch
from stepwatch.hooks import Watch
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
watch = Watch.from_env(job="losses")
watch.attach(model=model, optimizer=optimizer)
losses = []
for _ in range(40):
    with watch.step(tokens=64) as step:
        with step.phase("data"):
            batch = torch.randn(64, 16)
        with step.phase("forward"):
            loss = model(batch).square().mean()
        with step.phase("backward"):
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with step.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        step.record(loss=loss, grad_norm=norm)
        losses.append(loss.item().hex())
assert watch.guard.errors == 0
watch.close()
print(watch.recorder.ring is not None, losses)
"""


def losses(rings: Path, **environ: str) -> list[str]:
    """Train in a process of its own; return whether it was watched, and the losses."""
    environ |= {"STEPWATCH_RING_DIR": str(rings), "STEPWATCH_QUIET": "1"}
    words = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(
        words, env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    return ran.stdout.split(maxsplit=1)


def test_both_cores_leave_every_bit_of_the_losses(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    watched, bare = losses(tmp_path, STEPWATCH_DISABLE="1")
    assert watched == "False"
    for core in (choice.PYTHON, choice.NATIVE):
        assert losses(tmp_path / core, STEPWATCH_CORE=core) == ["True", bare]
