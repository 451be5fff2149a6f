"""Windows made by hand: planes of seconds over (steps, ranks), with noise of a known size."""

from __future__ import annotations

import numpy as np

from stepwatch.collector.detect.straggler import RankFacts
from stepwatch.collector.state.evidence.step_window import (
    COLUMNS,
    DEVICE_COLUMNS,
    VALUES,
    Window,
)

SHARES = {"data": 0.05, "forward": 0.25, "backward": 0.4, "optimizer": 0.05, "other": 0.05}


def window(
    steps: int,
    ranks: int,
    stages: int = 1,
    noise: float = 0.0,
    seed: int = 0,
    first_step: int = 100,
) -> Window:
    """A healthy job with steps of one second; `noise` is the sigma of lognormal work."""
    generator = np.random.default_rng(seed)
    planes = {name: np.zeros((steps, ranks), dtype=np.float32) for name in (*COLUMNS, *VALUES)}
    for name, share in SHARES.items():
        work = share * generator.lognormal(0.0, noise, (steps, ranks))
        planes[name] = work.astype(np.float32)
    for name in DEVICE_COLUMNS:
        planes.setdefault(name, np.full((steps, ranks), np.nan, dtype=np.float32))
    stage = (np.arange(ranks) * stages // ranks).astype(np.int16)
    step_window = Window(
        np.arange(first_step, first_step + steps, dtype=np.int64),
        planes,
        np.zeros((steps, ranks), dtype=np.uint16),
        stage,
    )
    settle(step_window)
    return step_window


def settle(step_window: Window) -> None:
    """Let the others wait for the slowest rank of each step, as synchronous training does."""
    work = np.sum([step_window.planes[name] for name in SHARES], axis=0)
    pauses = step_window.planes["checkpoint"] + step_window.planes["eval"]
    longest = work.max(axis=1, keepdims=True) * 1.05
    step_window.planes["collective"][:] = longest - work
    step_window.planes["duration"][:] = longest + pauses


def slow(step_window: Window, rank: int, phase: str, seconds: float, since: int) -> None:
    """Let `rank` work `seconds` longer in `phase` from row `since` on."""
    step_window.planes[phase][since:, rank] += seconds
    settle(step_window)


def unknown_facts(ranks: int) -> RankFacts:
    """No reading of any rank."""
    return RankFacts(np.full(ranks, np.nan), np.full(ranks, np.nan))
