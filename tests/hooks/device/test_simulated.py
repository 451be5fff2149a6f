"""One rank on the simulated device: its costs are stated, and so is what the rows must say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import PHASE_NAMES, DeviceFlag, Kind, LifecycleEvent, Op

from .programs.single import COSTS, LATE, LINK, STEPS

pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]
Rows = dict[Kind, Any]


class Ran:
    """What the program saw, and the rows of each of its jobs."""

    def __init__(self, folder: Path) -> None:
        out = folder / "seen.json"
        environment = {
            **{name: value for name, value in os.environ.items() if "STEPWATCH" not in name},
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
            "RANK": "0",
            "WORLD_SIZE": "1",
            places.ENV_RING_DIR: str(folder / "rings"),
        }
        words = [sys.executable, "-m", "tests.hooks.device.programs.single", str(out)]
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-3000:]
        self.seen = json.loads(out.read_text())
        self.rows: dict[str, Rows] = {}
        for path in find_rings(folder / "rings"):
            reader = RingReader(path)
            self.rows[reader.identity.job] = reader.read().rows
            reader.close()

    def steps(self, job: str) -> Any:
        """Device rows of the steps after the first."""
        rows = self.rows[job][Kind.DEVICE_STEP]
        return rows[rows["step"] > 0]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("simulated"))


def middle(column: Any) -> float:
    """Median: a machine that is busy makes the host late in some steps."""
    return float(np.median(column))


def test_self_time_of_each_phase_is_what_the_device_was_told(ran: Ran) -> None:
    rows = ran.steps("phases")
    assert len(rows) == STEPS - 1
    for name, seconds in COSTS.items():
        assert middle(rows[f"{name}_seconds"]) == pytest.approx(seconds, rel=0.02)
        assert middle(rows[f"{name}_idle_seconds"]) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("job", ["phases", "reads", "late_host", "unwaited", "captured"])
def test_the_parts_add_up_to_the_step(ran: Ran, job: str) -> None:
    rows = ran.rows[job][Kind.DEVICE_STEP]
    parts = sum(rows[f"{name}_seconds"] for name in PHASE_NAMES)
    parts = parts + rows["collective_seconds"] + rows["pipeline_wait_seconds"]
    assert len(rows)
    assert parts.tolist() == pytest.approx(rows["duration_seconds"].tolist(), rel=1e-5)


def test_the_host_alone_would_have_named_another_phase(ran: Ran) -> None:
    """All of the device's time shows on the host where it reads the loss: in `other`."""
    host = ran.rows["reads"][Kind.STEP][1:]
    rows = ran.steps("reads")
    for name, seconds in COSTS.items():
        assert middle(host[f"{name}_ns"]) < 0.5e9 * seconds
        busy = rows[f"{name}_seconds"] - rows[f"{name}_idle_seconds"]
        assert middle(busy) == pytest.approx(seconds, rel=0.02, abs=1e-3)
    assert middle(host["other_ns"]) > 0.5e9 * sum(COSTS.values())


def test_a_late_host_is_idle_time_of_the_device_in_that_phase(ran: Ran) -> None:
    rows = ran.steps("late_host")
    assert middle(rows["forward_idle_seconds"]) >= 0.98 * LATE
    busy = rows["forward_seconds"] - rows["forward_idle_seconds"]
    assert middle(busy) <= COSTS["forward"] * 1.1
    assert middle(rows["backward_idle_seconds"]) < 0.5 * COSTS["backward"]


def test_the_stream_stands_where_the_trainer_waits_for_what_it_started(ran: Ran) -> None:
    """Called at once, started and waited for later, and by a functional collective."""
    rows = ran.rows["collectives"][Kind.DEVICE_STEP]
    assert rows["collective_seconds"].tolist() == pytest.approx([LINK, 0.75 * LINK, LINK], rel=0.05)
    forward = 2 * COSTS["forward"]
    expected = [forward, forward + LINK / 4, forward]
    assert rows["forward_seconds"].tolist() == pytest.approx(expected, rel=0.05)
    collectives = ran.rows["collectives"][Kind.DEVICE_COLLECTIVE]
    assert collectives["step"].tolist() == [0, 1, 2]
    assert collectives["op"].tolist() == [Op.ALL_REDUCE, Op.ALL_REDUCE, Op.OTHER]
    assert collectives["timed"].tolist() == [1, 1, 1]
    group = ran.rows["collectives"][Kind.GROUP]["group"]
    assert set(collectives["group"].tolist()) == set(group.tolist())


def test_the_hooks_never_wait_for_the_device(ran: Ran) -> None:
    assert ran.seen["unwaited"]["still_busy"]
    losses = ran.rows["unwaited"][Kind.STEP]["loss"]
    assert losses[0] > 0
    assert (losses[-4:] > 0).all()


def test_a_plain_model_without_marks_has_its_time_in_other(ran: Ran) -> None:
    """It gets no hooks; where DDP or FSDP2 wraps it, `test_ranks` tells the phases apart."""
    rows = ran.rows["unwaited"][Kind.DEVICE_STEP]
    assert (rows["forward_seconds"] == 0).all()
    assert (rows["other_seconds"] > 0).any()


def test_a_step_in_which_a_graph_is_captured_says_so(ran: Ran) -> None:
    rows = ran.rows["captured"][Kind.DEVICE_STEP]
    assert rows["step"].tolist() == [0, 1, 2]
    assert rows["flags"].tolist() == [DeviceFlag.CAPTURED, 0, 0]
    assert ran.seen["captured"]["sum"] > 0


def test_a_loss_that_is_recorded_during_a_capture_is_unknown(ran: Ran) -> None:
    """To copy it would end the capture; the graph computes it when it is replayed."""
    assert np.isnan(ran.rows["captured"][Kind.STEP]["loss"][0])
    assert ran.rows["captured"][Kind.DEVICE_STEP]["flags"][0] == DeviceFlag.CAPTURED


def test_a_fork_changes_nothing(ran: Ran) -> None:
    assert ran.seen["forked"]["ended"] == 0
    assert ran.rows["forked"][Kind.STEP]["step"].tolist() == [0, 1]
    assert set(ran.rows["forked"][Kind.DEVICE_STEP]["step"].tolist()) <= {0, 1}


def test_a_lost_device_leaves_the_host_timed(ran: Ran) -> None:
    assert ran.seen["lost"]["errors"] == 1
    rows = ran.rows["lost"]
    assert rows[Kind.STEP]["step"].tolist() == [0, 1, 2, 3, 4]
    timing = rows[Kind.LIFECYCLE]["event"] == LifecycleEvent.DEVICE_TIMING
    assert rows[Kind.LIFECYCLE][timing]["value"].tolist() == [1, 0]
