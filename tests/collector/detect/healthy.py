"""Healthy runs that look anomalous: heavy noise, neighbours, pauses, starts, changes of work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepwatch.collector.state.evidence.step_window import WORK, Window
from stepwatch.signals.records import StepFlag

from .windows import settle, window

Generator = np.random.Generator


def spiky(step_window: Window, generator: Generator) -> None:
    """A shared host slows any rank in any step, up to three times the work."""
    shape = step_window.planes["forward"].shape
    for name in WORK:
        slowed = generator.random(shape) < 0.05
        step_window.planes[name][slowed] *= generator.uniform(1.5, 3.0, slowed.sum()).astype(
            np.float32
        )


def neighbour(step_window: Window, generator: Generator) -> None:
    """Noise that lasts: each rank's speed wanders by itself, all share what the host does."""
    steps, ranks = step_window.planes["forward"].shape
    wander = np.zeros((steps, ranks))
    for step in range(1, steps):
        wander[step] = 0.9 * wander[step - 1] + generator.normal(0.0, 0.04, ranks)
    together = np.cumsum(generator.normal(0.0, 0.15, steps))[:, None]
    for name in WORK:
        step_window.planes[name][:] *= np.exp(wander + together).astype(np.float32)


def pauses(step_window: Window, generator: Generator) -> None:
    """Checkpoints of rank 0, evaluations of all, and a slow data batch at each epoch's start."""
    steps = len(step_window.steps)
    step_window.planes["checkpoint"][::10, 0] += generator.uniform(1.0, 20.0)
    step_window.planes["eval"][::16] += generator.uniform(1.0, 30.0)
    step_window.planes["data"][::20] += generator.uniform(0.0, 2.0)
    step_window.flags[1:][np.arange(1, steps) % 10 == 0] = StepFlag.AFTER_PAUSE


def start(step_window: Window, generator: Generator) -> None:
    """Compilation: the first steps are long, on some ranks more than on others."""
    ranks = step_window.planes["forward"].shape[1]
    step_window.flags[0] = StepFlag.FIRST
    step_window.planes["forward"][:3] += generator.uniform(0.0, 60.0, (3, ranks)).astype(np.float32)


def change(step_window: Window, generator: Generator) -> None:
    """Twice the batch, or a longer sequence: from some step on everything takes longer."""
    since = int(generator.integers(5, len(step_window.steps)))
    for name in WORK:
        step_window.planes[name][since:] *= np.float32(generator.uniform(0.3, 4.0))


KINDS: dict[str, Callable[[Window, Generator], None]] = {
    "spiky": spiky,
    "neighbour": neighbour,
    "pauses": pauses,
    "start": start,
    "change": change,
}


def healthy(kind: str, ranks: int, stages: int, seed: int, steps: int = 64) -> Window:
    """One such window; everything in it is noisy by a fifth."""
    generator = np.random.default_rng(seed)
    step_window = window(steps, ranks, stages, noise=0.2, seed=seed)
    KINDS[kind](step_window, generator)
    settle(step_window)
    return step_window
