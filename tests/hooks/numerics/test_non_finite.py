"""What a rank holds that is not finite, and what its replicas no longer agree on: real ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.collector.detect import non_finite
from stepwatch.signals.records import LOSS_SCALED, Kind, NumericsSource, Op
from tests.hooks.conftest import RunRanks, Tables, tables_in

torch = pytest.importorskip("torch", reason="gradients are torch's")

WORLD, STEPS, EVERY, REPEATS = 4, 26, 8, 2
BAD_RANK, BAD_STEP, FLIPPED_RANK, FLIPPED_STEP = 2, 12, 1, 9
PROGRAM = Path(__file__).parents[1] / "programs" / "replicas.py"


def in_matrix(way: str) -> Any:
    """A way that `make test-matrix` runs; `make test` has one like it."""
    return pytest.param(way, marks=pytest.mark.matrix)


Launch = Callable[..., tuple[Tables, list[list[str]]]]


@pytest.fixture
def launch(rings: Path, results_of_ranks: RunRanks) -> Launch:
    """Runs the program on `world` ranks; returns their records and the losses each rank saw."""

    def run(world: int = WORLD, **environ: str) -> tuple[Tables, list[list[str]]]:
        results = results_of_ranks(PROGRAM, world, **{"STEPS": str(STEPS), **environ})
        return tables_in(rings), results

    return run


def rows_of(tables: Tables, rank: int, source: NumericsSource) -> Any:
    """NUMERICS rows of one rank and source; none where it wrote none."""
    rows = tables[rank].get(Kind.NUMERICS, np.zeros(0, dtype=[("source", "<u2")]))
    return rows[rows["source"] == source]


@pytest.mark.parametrize("way", ["ddp", in_matrix("ddp-view"), "fsdp2", in_matrix("hsdp"), "own"])
def test_the_rank_whose_gradient_is_not_finite_says_so_first(launch: Launch, way: str) -> None:
    tables, _ = launch(WAY=way, BAD=f"{BAD_RANK},{BAD_STEP}")
    first = {}
    for rank in range(WORLD):
        rows = rows_of(tables, rank, NumericsSource.COLLECTIVE_INPUT)
        first[rank] = int(rows["step"].min()) if len(rows) else None
        assert (rows["nonfinite"] >= 1).all()
    assert first[BAD_RANK] == BAD_STEP
    other_steps = [first[rank] for rank in range(WORLD) if rank != BAD_RANK]
    assert all(step is not None and step > BAD_STEP for step in other_steps), first
    name = bytes(rows_of(tables, BAD_RANK, NumericsSource.COLLECTIVE_INPUT)["text"][0])
    assert name == {
        "fsdp2": b"last",
        "hsdp": b"last",
        "ddp": b"first.weight",
        "own": b"all_reduce",
    }.get(way, b"last.bias")
    losses = rows_of(tables, 0, NumericsSource.LOSS)
    assert losses["step"].min() == BAD_STEP + 1, "a NaN that was recorded has a record of its own"


@pytest.mark.parametrize("way", ["ddp", in_matrix("hsdp")])
def test_a_flipped_bit_shows_in_the_digest_of_its_replica(launch: Launch, way: str) -> None:
    tables, _ = launch(WAY=way, FLIP=f"{FLIPPED_RANK},{FLIPPED_STEP}")
    by_group: dict[tuple[int, int], dict[int, int]] = {}
    for rank in range(WORLD):
        rows = rows_of(tables, rank, NumericsSource.PARAMETERS)
        assert rows["step"].tolist() == [7, 8, 15, 16, 23, 24]
        assert not len(rows_of(tables, rank, NumericsSource.COLLECTIVE_INPUT))
        for row in rows:
            digests_by_rank = by_group.setdefault((int(row["step"]), int(row["digest_group"])), {})
            digests_by_rank[rank] = int(row["digest"])
    for (step, _group), digests_by_rank in by_group.items():
        expected = 2 if step > FLIPPED_STEP and FLIPPED_RANK in digests_by_rank else 1
        assert len(set(digests_by_rank.values())) == expected, (step, digests_by_rank)
        if expected == 2 and way == "ddp":
            other_digests = {
                digest for rank, digest in digests_by_rank.items() if rank != FLIPPED_RANK
            }
            assert len(other_digests) == 1 and digests_by_rank[FLIPPED_RANK] not in other_digests


@pytest.mark.parametrize("way", ["ddp", in_matrix("hsdp")])
def test_a_healthy_run_has_equal_digests_and_its_losses_are_those_without_hooks(
    launch: Launch, way: str
) -> None:
    tables, watched = launch(WAY=way)
    _, plain = launch(WAY=way, STEPWATCH_DISABLE="1")
    assert watched == plain and len(plain[0]) == STEPS
    for rank in range(WORLD):
        metrics = tables[rank][Kind.METRIC]
        in_steps = metrics[metrics["evaluated"] == 0]
        means = in_steps["value_0"].astype(np.float32)
        assert np.array_equal(means, tables[rank][Kind.STEP]["loss"])
        assert (in_steps["value_2"] == 1e-3).all() and len(metrics) == STEPS + STEPS // 8
        rows = tables[rank][Kind.NUMERICS]
        assert set(rows["source"].tolist()) == {NumericsSource.PARAMETERS}
        assert len(rows) == REPEATS * (STEPS // EVERY)
    digests = {
        (int(row["step"]), int(row["digest_group"]), int(row["digest"]))
        for rank in range(WORLD)
        for row in tables[rank][Kind.NUMERICS]
    }
    groups = 1 if way == "ddp" else 2
    assert len(digests) == groups * REPEATS * (STEPS // EVERY)
    calls = tables[0][Kind.COLLECTIVE]
    op = Op.ALL_REDUCE if way == "ddp" else Op.REDUCE_SCATTER
    assert calls[calls["op"] == op]["step"].tolist() == list(range(STEPS))


def bad_steps(tables: Tables) -> list[int]:
    """First steps of what the detector finds in these records, as a collector holds them."""
    rows = np.concatenate([table[Kind.NUMERICS] for table in tables.values()])
    rows = rows[rows["source"] != NumericsSource.PARAMETERS]
    return [finding.began_step for finding in non_finite.detect(rows, 99, 99, non_finite.LIMITS)]


def test_a_loss_scaler_that_looks_for_its_scale_is_healthy(launch: Launch) -> None:
    tables, losses = launch(world=2, WAY="ddp", STEPS="48", SCALE=str(2.0**40))
    for rank in range(2):
        rows = tables[rank][Kind.NUMERICS]
        bad = rows[rows["nonfinite"] > 0]
        assert set(bad["source"].tolist()) == {NumericsSource.COLLECTIVE_INPUT | LOSS_SCALED}
        assert len(bad) > non_finite.LIMITS.recovered_steps
        assert bad["step"].max() < 40 and losses[rank][0] != losses[rank][-1]
    assert bad_steps(tables) == []


def test_a_scaler_that_is_switched_off_excuses_nothing(launch: Launch) -> None:
    tables, _ = launch(world=2, WAY="ddp", BAD=f"1,{BAD_STEP}")
    assert bad_steps(tables) == [BAD_STEP]
