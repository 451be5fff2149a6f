"""The bubble played through from a schedule's order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from stepwatch.hooks.pipeline.schedule_simulator import Work, schedule_bubble, simulated_bubble
from stepwatch.trainer.config.placement import ideal_bubble


def _one_f_one_b(ranks: int, count: int) -> dict[int, list[Work]]:
    order = {}
    for rank in range(ranks):
        ahead = min(count, ranks - rank)
        row = [Work("F", rank, number) for number in range(ahead)]
        for number in range(count):
            row.append(Work("B", rank, number))
            if number + ahead < count:
                row.append(Work("F", rank, number + ahead))
        order[rank] = row
    return order


@pytest.mark.parametrize(("ranks", "count"), [(2, 4), (4, 4), (4, 16), (8, 8)])
def test_1f1b_gives_the_known_formula(ranks: int, count: int) -> None:
    bubble = simulated_bubble(_one_f_one_b(ranks, count))
    assert bubble == pytest.approx(ideal_bubble("1f1b", ranks, count))


def test_weight_gradients_fill_the_bubble() -> None:
    orders = {0: [Work("F", 0, 0), Work("B", 0, 0)], 1: [Work("F", 1, 0), Work("B", 1, 0)]}
    split = {
        0: [Work("F", 0, 0), Work("I", 0, 0), Work("W", 0, 0)],
        1: [Work("F", 1, 0), Work("I", 1, 0), Work("W", 1, 0)],
    }
    assert simulated_bubble(orders) == pytest.approx(0.5)
    assert simulated_bubble(split) == pytest.approx(1 - 6 / 10)


def test_an_order_that_never_ends_is_an_error() -> None:
    with pytest.raises(ValueError, match="for ever"):
        simulated_bubble({0: [Work("B", 0, 0), Work("F", 0, 0)]})


@pytest.fixture
def single_rank_group() -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("single_rank_group")
@pytest.mark.parametrize("kind", [Schedule1F1B, ScheduleGPipe])
def test_the_order_that_torch_tells_can_be_played(kind: type[PipelineScheduleSingle]) -> None:
    stage = PipelineStage(torch.nn.Linear(2, 2), 0, 1, torch.device("cpu"))
    schedule = kind(stage, 6, loss_fn=torch.nn.functional.mse_loss)
    assert schedule_bubble(schedule) == pytest.approx(0.0)
    schedule._num_stages = 3
    schedule._stage.group_size = 3
    schedule.pipeline_order = schedule._get_pipeline_order()
    assert schedule_bubble(schedule) == pytest.approx(ideal_bubble("1f1b", 3, 6))
