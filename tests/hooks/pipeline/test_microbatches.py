"""Which steps of a pipeline are sampled, and what a sample holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.hooks import Watch
from stepwatch.hooks.communication.microbatches import (
    EARLY,
    LEAST_PERIOD,
    MOST_ROWS,
    STEPS_PER_ROW,
    MicrobatchSamples,
    Work,
)
from stepwatch.hooks.guard import Guard
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import Kind, Phase
from tests.hooks.conftest import rows_in

torch = pytest.importorskip("torch", reason="pipeline schedules are torch's")
MICROBATCHES = 3
FORWARD = Work(0, int(Phase.FORWARD), 0)


@pytest.fixture
def single_rank_group() -> Iterator[None]:
    """A process group of one rank."""
    from torch._C._distributed_c10d import HashStore

    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def made_schedule(watch: Watch) -> Any:
    """A watched schedule of one stage."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage = PipelineStage(torch.nn.Linear(2, 2), 0, 1, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    watch.attach(schedule=schedule)
    return schedule


def play(samples: MicrobatchSamples, steps: range, chunks: int) -> list[int]:
    """The steps of `steps` that are sampled when each has one call of `chunks` chunks."""
    sampled = []
    for step in steps:
        if step >= samples.due:
            samples.call_begins(step, training=True)
        if samples.active:
            sampled.append(step)
            for number in range(chunks):
                samples.chunk_ends(FORWARD, number, number, number + 1, 0)
            samples.call_ends(0, chunks)
    return sampled


@pytest.mark.usefixtures("single_rank_group")
def test_a_sampled_step_holds_each_call_and_no_evaluation(watch: Watch, rings: Path) -> None:
    schedule = made_schedule(watch)
    data = torch.ones(6, 2)
    for number in range(EARLY + 2):
        with watch.step():
            schedule.step(data, target=data)
            if number == EARLY:
                schedule.eval(data, target=data)
                with watch.phase("eval"):
                    schedule.step(data, target=data)
                schedule.step(data, target=data)
    assert watch.guard.errors == 0
    watch.close()
    rows = rows_in(rings, Kind.MICROBATCH)
    call = [int(Phase.FORWARD)] * MICROBATCHES + [int(Phase.BACKWARD)] * MICROBATCHES + [0]
    assert rows["phase"].tolist() == call * 2
    assert rows["index"].tolist() == list(range(len(call) * 2))
    assert set(rows["step"].tolist()) == {EARLY}


@pytest.mark.usefixtures("single_rank_group")
def test_a_failing_step_fails_as_without_hooks_and_later_ones_are_sampled(
    watch: Watch, rings: Path
) -> None:
    schedule = made_schedule(watch)
    data = torch.ones(6, 2)
    for number in range(EARLY + 1):
        with watch.step():
            if number == EARLY:
                with pytest.raises(RuntimeError):
                    schedule.step(torch.ones(6, 5), target=data)
            schedule.step(data, target=data)
    watch.close()
    assert watch.guard.errors == 0
    assert rows_in(rings, Kind.MICROBATCH)["phase"][-1] == Phase.OTHER


@given(first=st.integers(0, 1 << 31), chunks=st.integers(1, MOST_ROWS))
@settings(max_examples=20)
def test_the_first_step_is_never_sampled_and_the_average_is_bounded(
    first: int, chunks: int
) -> None:
    samples = MicrobatchSamples(Recorder(None, Guard()))
    first_sample, *later = play(samples, range(first, first + 3 * STEPS_PER_ROW * 2048), chunks)
    assert first_sample == first + EARLY
    gaps = {later_step - earlier_step for earlier_step, later_step in itertools.pairwise(later)}
    assert len(gaps) <= 1
    for gap in gaps:
        assert gap >= LEAST_PERIOD and gap & (gap - 1) == 0
        assert (chunks + 1) / gap <= 1 / STEPS_PER_ROW
        assert all(step % gap == EARLY for step in later)


def test_ranks_with_unequal_numbers_of_chunks_still_share_steps() -> None:
    few, many = (
        play(MicrobatchSamples(Recorder(None, Guard())), range(2_000), chunks) for chunks in (7, 24)
    )
    assert len(few) > len(many) > 2
    assert set(many) < set(few)


def test_a_step_of_too_many_chunks_does_not_flood_the_ring(watch: Watch, rings: Path) -> None:
    samples = watch.instruments.microbatches
    play(samples, range(EARLY + 1), MOST_ROWS + 50)
    watch.close()
    rows = rows_in(rings, Kind.MICROBATCH)
    assert len(rows) == MOST_ROWS
    assert not (rows["phase"] == Phase.OTHER).any(), "what is not whole does not say it is"
