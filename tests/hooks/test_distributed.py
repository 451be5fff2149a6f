"""FSDP2 under a 1F1B pipeline on four real Gloo ranks, on whichever torch is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.hooks.communication.microbatches import EARLY
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, LifecycleEvent, Op, Phase

from .conftest import RunRanks, tables_in

torch = pytest.importorskip("torch", reason="FSDP2 and the pipeline are torch's")

WORLD, STEPS, MICROBATCHES, SLOW_RANK, SLOW_SECONDS = 4, EARLY + 2, 4, 3, 0.02
PROGRAM = f"""
import json, os, time
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from stepwatch.hooks import Watch

torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp_shard"))
stage_index, rank = mesh["pp"].get_local_rank(), dist.get_rank()

class Slow(torch.nn.Module):
    def forward(self, x):
        if rank == {SLOW_RANK}:
            time.sleep({SLOW_SECONDS})
        return x

def train(watch):
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(32, 32), Slow(), torch.nn.Linear(32, 32))
    fully_shard(module[0], mesh=mesh["dp_shard"], reshard_after_forward=False)
    fully_shard(module, mesh=mesh["dp_shard"], reshard_after_forward=False)
    stage = PipelineStage(module, stage_index, 2, torch.device("cpu"), group=mesh["pp"].get_group())
    schedule = Schedule1F1B(stage, {MICROBATCHES}, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    if watch.enabled:
        watch.attach(model=module, optimizer=optimizer, schedule=schedule)
    last, data, walls = [], torch.ones(8, 32), []
    dist.barrier()
    for number in range({STEPS}):
        began = time.monotonic_ns()
        with watch.step(tokens=8) as step:
            losses = []
            if stage_index == 0:
                schedule.step(data)
            else:
                schedule.step(target=data * 2, losses=losses)
            with step.phase("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            total = torch.stack(losses).mean() if losses else torch.zeros(())
            if number == 2:
                dist.all_reduce(torch.ones(3))
                dist.new_group([0, 1, 2, 3])
            step.record(loss=total)
        walls.append(time.monotonic_ns() - began)
        last.append(float(total.detach()))
    return last, walls

os.environ["STEPWATCH_DISABLE"] = "1"
plain, _ = train(Watch.from_env(job="tiny"))
del os.environ["STEPWATCH_DISABLE"]
watch = Watch.from_env(
    job="tiny",
    mesh_index={{"pp": stage_index, "dp_shard": mesh["dp_shard"].get_local_rank()}},
    mesh_size={{"pp": 2, "dp_shard": 2}},
)
last, walls = train(watch)
errors = watch.guard.errors
watch.finish()
watch.close()
results = {{"plain": plain, "losses": last, "errors": errors, "walls": walls}}
path = os.path.join(os.environ["OUT"], f"{{rank}}.json")
with open(path, "w") as file:
    json.dump(results, file)
dist.destroy_process_group()
"""


def check_rings(rings: Path) -> None:
    """Every ring was closed, and holds its rank's stage."""
    for path in find_rings(rings):
        reader = RingReader(path)
        assert reader.closed
        assert reader.identity.stage == reader.identity.rank // 2
        reader.close()


def test_ranks_stages_and_collectives_are_seen_and_nothing_is_changed(
    tmp_path: Path, rings: Path, results_of_ranks: RunRanks
) -> None:
    program = tmp_path / "tiny.py"
    program.write_text(PROGRAM)
    results = results_of_ranks(program, WORLD)
    assert [rank["errors"] for rank in results] == [0] * WORLD
    check_rings(rings)
    tables = tables_in(rings)
    assert sorted(tables) == list(range(WORLD))
    for rank, rank_tables in tables.items():
        check_steps(rank_tables[Kind.STEP], results[rank]["walls"])
        check_collectives(rank_tables)
        check_schedule(rank_tables[Kind.LIFECYCLE])
        check_microbatches(rank_tables, stage=rank // 2)
    # The middle step: a busy machine may make any rank late in some.
    slow = [float(np.median(tables[rank][Kind.STEP]["forward_ns"][1:])) for rank in range(WORLD)]
    other_waits = [slow[rank] for rank in range(WORLD) if rank != SLOW_RANK]
    assert slow[SLOW_RANK] >= MICROBATCHES * SLOW_SECONDS * 1e9
    assert slow[SLOW_RANK] > 2 * max(other_waits), (
        "waiting for the slow rank is not the others' work"
    )
    assert [rank["plain"] for rank in results] == [rank["losses"] for rank in results]


def check_schedule(events: np.ndarray[Any, np.dtype[np.void]]) -> None:
    """Two stages and four microbatches cannot do without a bubble of a fifth."""
    [event] = events[events["event"] == LifecycleEvent.SCHEDULE]
    assert (event["value"], event["text"]) == (200_000, b"Schedule1F1B, 2 stages, 4 microbatches")


def check_microbatches(
    rank_tables: dict[Kind, np.ndarray[Any, np.dtype[np.void]]], stage: int
) -> None:
    """One step is sampled: every chunk, in the order of 1F1B, with the time of the step."""
    rows = rank_tables[Kind.MICROBATCH]
    assert rows["step"].tolist() == [EARLY] * (2 * MICROBATCHES + 1)
    assert rows["index"].tolist() == list(range(2 * MICROBATCHES + 1))
    chunks, call = rows[:-1], rows[-1]
    assert (call["phase"], call["blocked_ns"]) == (Phase.OTHER, 0)
    assert set(chunks["stage"].tolist()) == {stage} and not rows["weight_only"].any()
    numbers = list(range(MICROBATCHES))
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert chunks["microbatch"][chunks["phase"] == phase].tolist() == numbers
    # The last stage goes back after each forward, the first one when there is a gradient.
    assert chunks["phase"].tolist()[:2] == [
        Phase.FORWARD,
        Phase.BACKWARD if stage else Phase.FORWARD,
    ]
    borders = np.column_stack([chunks["began_ns"], chunks["time_ns"]]).ravel()
    assert (np.diff(borders.astype(np.int64)) >= 0).all()
    assert call["began_ns"] <= borders[0] and borders[-1] <= call["time_ns"]
    spent = chunks["time_ns"] - chunks["began_ns"]
    assert (chunks["blocked_ns"] <= spent).all()
    (step,) = rank_tables[Kind.STEP][rank_tables[Kind.STEP]["step"] == EARLY]
    for name, phase in (("forward_ns", Phase.FORWARD), ("backward_ns", Phase.BACKWARD)):
        self_ns = (spent - chunks["blocked_ns"])[chunks["phase"] == phase].sum()
        # Less where a collective was re-booked after its chunk had ended.
        assert step[name] <= self_ns


def check_steps(steps: np.ndarray[Any, np.dtype[np.void]], walls: list[int]) -> None:
    """Self times add up to the step, and the step to what the trainer's own clock shows."""
    assert steps["step"].tolist() == list(range(STEPS))
    assert steps["microbatches"].tolist() == [MICROBATCHES] * STEPS
    names = [name for name in steps.dtype.names or () if name.endswith("_ns")]
    parts = [name for name in names if name not in ("time_ns", "duration_ns")]
    self_ns = np.sum([steps[name] for name in parts], axis=0)
    assert self_ns.tolist() == steps["duration_ns"].tolist()
    for name in ("forward_ns", "backward_ns", "optimizer_ns", "pipeline_wait_ns"):
        assert (steps[name] > 0).all(), name
    # A busy machine may stop a rank between its own look at the clock and that of the hooks.
    apart = np.abs(steps["duration_ns"][1:].astype(float) - walls[1:])
    assert np.median(apart - 0.2 * np.array(walls[1:])) <= 5e6


def check_collectives(rank_tables: dict[Kind, np.ndarray[Any, np.dtype[np.void]]]) -> None:
    """Each step's all-gathers and reduce-scatters, in the step that they ran in."""
    rows = rank_tables[Kind.COLLECTIVE]
    assert set(rows["group"].tolist()) <= set(rank_tables[Kind.GROUP]["group"].tolist())
    for op in (Op.ALL_GATHER, Op.REDUCE_SCATTER):
        chosen = rows[rows["op"] == op]
        assert sorted(set(chosen["step"].tolist())) == list(range(STEPS)), op.name
        assert (chosen["count"] > 0).all() and (chosen["bytes"] > 0).all()
        assert (chosen["longest_ns"] <= chosen["exposed_ns"]).all()
    reduces = rows[rows["op"] == Op.ALL_REDUCE]
    assert 2 in reduces["step"].tolist(), "what the trainer itself reduced"
    text = {bytes(row["text"]) for row in rank_tables[Kind.GROUP]}
    assert text & {b"0,1", b"2,3"}
