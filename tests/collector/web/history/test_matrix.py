"""Cells hold the largest value and its rank, whatever the bins and the order of rows."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.snapshot import put_together, taken_apart
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.web.history.matrix import (
    MATRICES,
    SHARED_MATRICES,
    Window,
    matrix_document,
    shared,
)
from stepwatch.collector.web.history.matrix.planes import Planes
from stepwatch.collector.web.history.matrix.shared import read_planes
from stepwatch.collector.web.history.numbers import document_text
from stepwatch.signals.records import Kind
from tests.collector.made import EPOCH, JOB, segment, state_rows, step_rows


def planes_of(seconds: Any, node: list[int] | None = None) -> Planes:
    values = np.array(seconds, dtype=np.float32)
    ranks = np.arange(values.shape[1])
    nodes = np.zeros(len(ranks), dtype=np.int64) if node is None else np.array(node)
    return Planes(
        about={"job": "made"},
        clock="host",
        nodes=[f"node-{number}" for number in range(int(nodes.max(initial=0)) + 1)],
        begins=np.arange(len(values)) + 100,
        steps=np.arange(len(values)) + 100,
        at=np.arange(len(values), dtype=np.float64),
        seconds=values,
        first=ranks,
        last=ranks,
        slowest=None,
        node=nodes,
        stage=np.full(len(ranks), -1),
    )


def shown(planes: Planes, by: str = "rank", rows: int = 64, columns: int = 160) -> Any:
    window = Window(-math.inf, math.inf, 0, 1 << 31, 0, 1 << 17, by, rows, columns)
    return json.loads(document_text(matrix_document(planes, window)))


def test_rows_of_nodes_whose_ranks_alternate() -> None:
    nan = math.nan
    document = shown(planes_of([[1, 2, 3, nan], [4, 2, nan, 5]], node=[1, 0, 1, -1]), "node")
    assert [row["words"] for row in document["rows"]] == ["node-1", "node-0", "unknown"]
    assert [(row["first"], row["last"]) for row in document["rows"]] == [(0, 2), (1, 1), (3, 3)]
    assert document["seconds"] == [[3, 4], [2, 2], [None, 5]]
    assert document["slowest"] == [[2, 0], [1, 1], [None, 3]]


def test_steps_and_ranks_in_bins() -> None:
    document = shown(planes_of([[1, 2, 3, 4], [8, 7, 6, 5]]), rows=2, columns=1)
    assert document["seconds"] == [[8], [6]] and document["slowest"] == [[0], [2]]
    assert [row["words"] for row in document["rows"]] == ["ranks 0 to 1", "ranks 2 to 3"]
    assert document["steps"] == [[100, 101]] and document["known_steps"] == [100, 101]


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99)
)
def test_each_cell_is_the_largest_of_its_bin(
    steps: int, ranks: int, rows: int, columns: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 9, (steps, ranks)).astype(np.float32)
    values[random.random(values.shape) < 0.3] = np.nan
    document = shown(planes_of(values), rows=rows, columns=columns)
    for row, line, slowest in zip(
        document["rows"], document["seconds"], document["slowest"], strict=True
    ):
        for (first, last), cell, rank in zip(document["steps"], line, slowest, strict=True):
            part = values[first - 100 : last - 99, row["first"] : row["last"] + 1]
            known = part[~np.isnan(part)]
            assert cell == (float(known.max()) if len(known) else None)
            if cell is None:
                assert rank is None
            else:
                assert cell in values[first - 100 : last - 99, rank]


def test_another_collector_reads_ranks_in_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "SHARED_CELLS", 8)
    values = np.arange(16).reshape(2, 8) % 7
    held = planes_of(values)
    binned = read_planes(SHARED_MATRICES["step"].finish(held))
    assert binned.seconds.shape == (2, 4)
    for by in ("rank", "node"):
        assert shown(binned, by, rows=2)["seconds"] == shown(held, by, rows=2)["seconds"]
        assert shown(binned, by, rows=2)["slowest"] == shown(held, by, rows=2)["slowest"]
    single = shown(binned)
    assert [row["words"] for row in single["rows"]] == [
        "ranks 0 to 1", "ranks 2 to 3", "ranks 4 to 5", "ranks 6 to 7",
    ]  # fmt: skip


def test_a_bin_of_ranks_never_gives_one_node_the_seconds_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared, "SHARED_CELLS", 4)
    held = planes_of([range(9)], node=[0, 0, 0, 1, 1, 1, 2, 2, 2])
    binned = read_planes(SHARED_MATRICES["step"].finish(held))
    assert binned.seconds.shape[1] < 9
    for name in ("seconds", "slowest", "rows"):
        assert shown(binned, "node")[name] == shown(held, "node")[name]
    mixed = read_planes(SHARED_MATRICES["step"].finish(planes_of([range(9)], [0, 1, 2] * 3)))
    (row,) = shown(mixed, "node")["rows"]
    assert row["words"] == "unknown", "each bin holds ranks of several nodes"


def test_ranks_are_known_over_the_whole_attempt() -> None:
    job, steps, slow = LiveJob(JOB), 3000, range(100, 150)
    for first in range(0, steps, 50):
        excess = {(2, "forward"): 3.0} if first in slow else None
        tables = {Kind.STEP: step_rows(range(first, first + 50), range(4), 1.0, excess)}
        tables[Kind.RANK_STATE] = state_rows(range(4), 4, first + 50.0)
        job.append(segment(first // 50 + 1, tables), Received(EPOCH + steps + 1.0, 0.0))
    job.fold()
    job = put_together(taken_apart(job))
    view = MATRICES["self_time"]
    planes = view.finish(view.make(job, Verdicts(), EPOCH + steps + 1.0))
    whole = shown(planes, columns=60)
    assert whole["known_steps"] == [0, steps - 1]
    assert whole["steps"][0][0] == 0 and whole["steps"][-1][1] == steps - 1
    assert all(last - first < 60 for first, last in whole["steps"])
    is_slow = [first < slow.stop and last >= slow.start for first, last in whole["steps"]]
    assert [cell > 3 for cell in whole["seconds"][2]] == is_slow
    assert max(whole["seconds"][1]) < 1
    assert [at is not None for at in whole["at"]] == [True] * len(whole["at"])
    newest = Window(EPOCH + 2990.0, math.inf, 0, 1 << 31, 0, 3, "rank", 64, 160)
    part = json.loads(document_text(matrix_document(planes, newest)))
    assert part["steps"] == [[step, step] for step in range(2989, 3000)]
    other = MATRICES["step"]
    recent = shown(other.finish(other.make(job, Verdicts(), EPOCH + steps + 1.0)))
    assert recent["known_steps"] == [steps - 512, steps - 1]
