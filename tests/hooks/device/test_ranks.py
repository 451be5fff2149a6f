"""Two ranks on simulated devices, one of them slow: the device says which, and no loss changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.signals import places
from stepwatch.signals.records import Kind, Op
from tests.hooks.conftest import LAUNCHER, tables_in

from .programs.ranks import SLOWER, STEPS

pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]


def run(kind: str, folder: Path, **environ: str) -> list[str]:
    """Losses of each rank."""
    folder.mkdir(exist_ok=True)
    outer = {name: value for name, value in os.environ.items() if name not in LAUNCHER}
    environment = {
        **outer,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
        "OMP_NUM_THREADS": "1",
        places.ENV_RING_DIR: str(folder / "rings"),
        **environ,
    }
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    program = ["-m", "tests.hooks.device.programs.ranks", kind, str(folder / "losses")]
    ended = subprocess.run(
        [*words, *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [(folder / f"losses.{rank}").read_text() for rank in range(2)]


def busy(rows: Any, phase: str) -> float:
    """A phase without idleness, in the middle of all steps after the first two."""
    return float(np.median((rows[f"{phase}_seconds"] - rows[f"{phase}_idle_seconds"])[2:]))


def waits_in_the_fastest_step(rows: list[Any]) -> list[float]:
    """Seconds of each rank in collectives, in the step in which no host was late.

    A host that is late makes the other rank wait, the slow one too: such a step takes longer.
    """
    common = sorted(set.intersection(*(set(table["step"].tolist()) for table in rows)) - {0, 1})
    of_steps = [[table[table["step"] == step][0] for table in rows] for step in common]
    fastest = min(of_steps, key=lambda ranks: max(row["duration_seconds"] for row in ranks))
    return [float(row["collective_seconds"]) for row in fastest]


@pytest.mark.parametrize("kind", ["ddp", pytest.param("fsdp", marks=pytest.mark.matrix)])
@pytest.mark.long(
    "tests/hooks/device/test_simulated.py::test_self_time_of_each_phase_is_what_the_device_was_told",
    "tests/hooks/device/test_simulated.py::test_a_plain_model_without_marks_has_its_time_in_other",
    "tests/simulated_device/test_models.py::test_neither_device_nor_hooks_nor_a_fault_from_outside_change_a_loss",
)
def test_a_slow_device_is_seen_in_every_phase_though_no_phase_is_marked(
    kind: str, tmp_path: Path
) -> None:
    watched = run(kind, tmp_path / "on")
    assert watched == run(kind, tmp_path / "off", **{places.ENV_DISABLE: "1"})

    tables = tables_in(tmp_path / "on" / "rings")
    rows: list[Any] = [tables[rank][Kind.DEVICE_STEP] for rank in range(2)]
    for name in ("forward", "backward", "optimizer"):
        fast, slow = (busy(table, name) for table in rows)
        assert slow == pytest.approx(SLOWER * fast, rel=0.1), name
    assert len(rows[0]) >= STEPS - 2
    fast, slow = waits_in_the_fastest_step(rows)
    assert fast > slow
    host = [tables[rank][Kind.STEP] for rank in range(2)]
    assert all((table["forward_ns"] > 0).all() for table in host)
    expected = {Op.ALL_REDUCE} if kind == "ddp" else {Op.ALL_GATHER, Op.REDUCE_SCATTER}
    assert set(tables[0][Kind.DEVICE_COLLECTIVE]["op"].tolist()) == expected
