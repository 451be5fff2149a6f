"""Steps straight into the evidence: whole job-days of them in a second, with nothing in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepwatch.collector.detect.straggler import LIMITS
from stepwatch.collector.detect.straggler.costly import CostlyRank, costly_ranks
from stepwatch.collector.state.evidence.cells import Arrangement, Cells
from stepwatch.collector.state.evidence.step_window import COLUMNS, WORK, Window
from stepwatch.collector.state.trackers.steps.rank_evidence import RankEvidence
from stepwatch.signals.arrays import Cube, Matrix, Matrix32, SmallIntegers
from tests.collector.detect.windows import SHARES

Generator = np.random.Generator
Noise = Callable[[Generator, int, int], Cube]


def work_of(noise: Noise, generator: Generator, steps: int, ranks: int, seconds: float) -> Cube:
    """Healthy work (phases, steps, ranks) of steps that take about so many seconds."""
    shares = np.array([SHARES[name] for name in WORK])[:, None, None]
    return np.asarray(seconds * shares * noise(generator, steps, ranks))


def lognormal(sigma: float) -> Noise:
    """Each phase of each rank and step apart."""
    return lambda generator, steps, ranks: generator.lognormal(0, sigma, (len(WORK), steps, ranks))


def heavy(generator: Generator, steps: int, ranks: int) -> Cube:
    """Tails so heavy that their variance is infinite."""
    tail = np.abs(generator.standard_t(1.5, (len(WORK), steps, ranks)))
    return np.asarray(1.0 + 0.05 * np.minimum(tail, 200.0))


def two_lengths(generator: Generator, steps: int, ranks: int) -> Cube:
    """Three in ten sequences take three times as long as the others."""
    length = np.where(generator.random((1, steps, ranks)) < 0.3, 3.0, 1.0)
    return np.asarray(length * lognormal(0.02)(generator, steps, ranks))


def shared(generator: Generator, steps: int, ranks: int) -> Cube:
    """What all ranks share wanders slowly and far."""
    wander = np.zeros(steps)
    for step in range(1, steps):
        wander[step] = 0.95 * wander[step - 1] + generator.normal(0.0, 0.15)
    return np.asarray(np.exp(wander)[None, :, None] * lognormal(0.05)(generator, steps, ranks))


def window_of(
    work: Cube, stage: SmallIntegers, first_step: int, tokens: Matrix32 | None = None
) -> Window:
    """The window of these steps (phases, steps, ranks), in which all wait for the slowest rank."""
    shape = work.shape[1:]
    planes = {name: np.zeros(shape, dtype=np.float32) for name in COLUMNS}
    planes |= {name: part.astype(np.float32) for name, part in zip(WORK, work, strict=True)}
    longest = work.sum(axis=0).max(axis=1, keepdims=True) * 1.05
    planes["duration"][:] = longest
    planes["tokens"] = np.full(shape, np.nan, dtype=np.float32) if tokens is None else tokens
    steps = np.arange(first_step, first_step + shape[0])
    return Window(steps, planes, np.zeros(shape, dtype=np.uint16), stage)


def advance(evidence: RankEvidence, step_window: Window, nodes: int = 1) -> None:
    """Let the evidence take all steps of a window of ranks on so many nodes."""
    ranks = len(step_window.stage)
    arrangement = Arrangement(
        step_window.clock, step_window.stage, np.arange(ranks) * nodes // ranks
    )
    evidence.take(arrangement, cells_of_window(step_window))


def cells_of_window(step_window: Window) -> Cells:
    """What evidence takes of all steps of a window."""
    seconds = np.nanmax(step_window.planes["duration"], axis=1).astype(np.float64)
    work = np.stack([step_window.planes[name] for name in WORK])
    finite = ~np.isnan(step_window.planes["duration"])
    wait = step_window.planes["collective"].min(axis=1).astype(np.float64)
    neighbours = step_window.planes["pipeline_wait"].mean(axis=1).astype(np.float64)
    return Cells(
        step_window.steps, seconds, work, step_window.planes["tokens"], finite, wait, neighbours
    )


def named(
    work: Cube,
    every: int = 10,
    stages: int = 1,
    tokens: Matrix | None = None,
    nodes: int = 1,
    lost: int = 0,
) -> tuple[float, CostlyRank] | None:
    """The first rank that is named, and after how many seconds, looking each so many steps.

    The last `lost` ranks are not observed from the 20th step on.
    """
    evidence, seconds, ranks = RankEvidence(), 0.0, work.shape[2]
    stage = (np.arange(ranks) * stages // ranks).astype(np.int16)
    for first in range(0, work.shape[1], every):
        counted = None if tokens is None else tokens[first : first + every].astype(np.float32)
        step_window = window_of(work[:, first : first + every], stage, first, counted)
        step_window.planes["duration"][step_window.steps >= 20, ranks - lost :] = np.nan
        advance(evidence, step_window, nodes)
        seconds += float(np.nanmax(step_window.planes["duration"], axis=1).sum())
        slow_ranks = costly_ranks(evidence, stage, LIMITS)
        if slow_ranks:
            return seconds, slow_ranks[0]
    return None
