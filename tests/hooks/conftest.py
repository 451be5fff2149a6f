"""Watches over rings in a folder of the test, and what the rings hold afterwards."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.hooks import Watch
from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import BODIES, METRICS_PER_ROW, Kind, LifecycleEvent
from tests.ranks.forked import ForkedRanks

LAUNCHER = ("RANK", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
Rows = np.ndarray[tuple[int], np.dtype[np.void]]


@pytest.fixture(autouse=True)
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The ring directory of the test; nothing of the caller's environment counts."""
    for name in [*LAUNCHER, *(name for name in os.environ if name.startswith("STEPWATCH_"))]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(places.ENV_RING_DIR, str(tmp_path / "rings"))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    yield tmp_path / "rings"


@pytest.fixture
def watch(rings: Path) -> Iterator[Watch]:
    """A Watch that is closed after the test."""
    opened = Watch.from_env(job="job")
    assert opened.enabled
    yield opened
    opened.close()
    gc.collect()


def only_ring(root: Path) -> RingReader:
    """The one ring below `root`."""
    (path,) = find_rings(root)
    return RingReader(path)


def rows_in(root: Path, kind: Kind) -> Rows:
    """Records of one kind in the one ring below `root`."""
    reader = only_ring(root)
    rows_by_kind = reader.read().rows
    reader.close()
    return rows_by_kind.get(kind, np.zeros(0, dtype=[(name, code) for name, code in BODIES[kind]]))


def life_in(root: Path) -> Rows:
    """LIFECYCLE records in the one ring below `root`, without those of what the run is made of."""
    rows = rows_in(root, Kind.LIFECYCLE)
    life_rows: Rows = rows[rows["event"] != LifecycleEvent.FACT]
    return life_rows


Tables = dict[int, dict[Kind, np.ndarray[Any, np.dtype[np.void]]]]


def tables_in(root: Path) -> Tables:
    """Records of each rank below `root`, all of whose hooks met no error."""
    tables_by_rank = {}
    for path in find_rings(root):
        reader = RingReader(path)
        assert reader.hook_errors == 0
        tables_by_rank[reader.identity.rank] = reader.read().rows
        reader.close()
    return tables_by_rank


def metric_values(tables: dict[Kind, Any]) -> dict[str, list[tuple[int, float]]]:
    """One rank's metrics by name, `EVALUATION:NAME` for an evaluation's: (step, value) in order."""
    names = {
        int(row["number"]): ":".join(
            text.decode() for text in (row["evaluation"], row["text"]) if text
        )
        for row in tables.get(Kind.METRIC_NAME, ())
    }
    values: dict[str, list[tuple[int, float]]] = {}
    for row in tables.get(Kind.METRIC, ()):
        for place in range(METRICS_PER_ROW):
            if number := int(row[f"name_{place}"]):
                value = int(row["step"]), float(row[f"value_{place}"])
                values.setdefault(names[number], []).append(value)
    return values


RunRanks = Callable[..., list[Any]]


@pytest.fixture
def results_of_ranks(forked_ranks: ForkedRanks, tmp_path: Path, rings: Path) -> RunRanks:
    """Runs a program on `world` ranks; returns what each wrote as JSON to `RANK.json` in `OUT`."""

    def run(program: Path, world: int, **environ: str) -> list[Any]:
        out = tmp_path / "out"
        outer = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
        environment = {**outer, "OMP_NUM_THREADS": "1", "OUT": str(out), **environ}
        ended = forked_ranks.run([str(program)], world, out, environment)
        assert not any(ended.codes), f"{ended.codes}\n{ended.output[-3000:]}"
        return [json.loads((out / f"{rank}.json").read_text()) for rank in range(world)]

    return run


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(rings: Path) -> Run:
    """Runs Python text in a process of its own, as a rank."""

    def python(text: str, *options: str, **environ: str) -> Any:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **environ,
        }
        words = [sys.executable, *options, "-c", text]
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    return python
