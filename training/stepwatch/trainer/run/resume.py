"""The run's start: at step 0, or after the checkpoint that it resumes from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from stepwatch.hooks import Watch
from stepwatch.trainer.checkpoint.resume import choose_checkpoint, load_checkpoint
from stepwatch.trainer.checkpoint.write import Ranks
from stepwatch.trainer.parallel.local_model import LocalModel
from stepwatch.trainer.parallel.runtime import Runtime

from .history import History


@dataclass(frozen=True)
class Start:
    """First step to train, and the run's history (None except on rank 0)."""

    first: int
    history: History | None


def load_newest(
    root: Path,
    runtime: Runtime,
    model: LocalModel,
    *,
    identity: Mapping[str, Any],
    watch: Watch,
) -> int:
    """Load the newest valid checkpoint under `root`, if any; return the first step to train.

    Raises:
        CheckpointError: it belongs to another model, data or seed, or torch cannot load it.
    """
    ranks = Ranks(runtime.rank, runtime.world, runtime.control_group)
    manifest, rejections = choose_checkpoint(root, ranks, identity)
    for rejected in rejections:
        watch.checkpoint(rejected.step).rejected(rejected.reason)
        runtime.log(
            f"rejected checkpoint of step {rejected.step}: {rejected.reason} ({rejected.moved_to})"
        )
    if manifest is None:
        return 0
    load_checkpoint(root, manifest, model, ranks, runtime.device)
    return manifest.step


def _open_history(run_dir: Path, first: int, *, restart: bool) -> tuple[History, int]:
    """Open the history; return it and the steps lost by resuming at `first`."""
    history = History(run_dir)
    if restart:
        history.restart()
        return history, 0
    if not first and not history.steps:
        return history, 0
    line = history.resume(first)
    print(
        f"resumed from step {first}: {line.steps_lost} steps lost, "
        f"{line.seconds:.1f} s without progress",
        file=sys.stderr,
        flush=True,
    )
    return history, line.steps_lost


def start_at(first: int, run_dir: Path, runtime: Runtime, watch: Watch, *, restart: bool) -> Start:
    """Open the history on rank 0 and report the first step to every rank's hooks.

    Args:
        first: step to train first.
        run_dir: the history's directory.
        runtime: this rank's runtime.
        watch: this rank's hooks.
        restart: drop the history of earlier attempts.
    """
    watch.start_at(first)
    history, lost = None, torch.zeros(1, dtype=torch.int64)
    if runtime.is_leader:
        history, steps_lost = _open_history(run_dir, first, restart=restart)
        lost.fill_(steps_lost)
    dist.broadcast(lost, group=runtime.control_group, group_src=0)
    if first or lost.item():
        watch.resumed(from_step=first)
    return Start(first, history)
