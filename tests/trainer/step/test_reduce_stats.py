"""Statistics of a step, reduced over all ranks."""

from __future__ import annotations

import torch

from stepwatch.faults import Injector
from stepwatch.hooks import Watch
from stepwatch.trainer.parallel.runtime import Runtime
from stepwatch.trainer.step.reduce_stats import StatsReducer


def test_one_rank_gets_its_own_loss_norm_and_flags(runtime: Runtime, watch: Watch) -> None:
    reducer = StatsReducer(runtime, watch, Injector([], rank=0, attempt=0), loss_copies=1)
    squares = torch.tensor(9.0, dtype=torch.float64)
    stats = reducer.run(0, torch.tensor(2.5), squares, stop=True, saving=False)
    values = [float(value) for value in (stats.loss, stats.norm, stats.stop, stats.saving)]
    assert values == [2.5, 3.0, 1.0, 0.0]


def test_a_loss_that_several_ranks_compute_counts_once(runtime: Runtime, watch: Watch) -> None:
    reducer = StatsReducer(runtime, watch, Injector([], rank=0, attempt=0), loss_copies=4)
    squares = torch.tensor(0.0, dtype=torch.float64)
    stats = reducer.run(0, torch.tensor(2.0), squares, stop=False, saving=False)
    assert float(stats.loss) == 0.5
