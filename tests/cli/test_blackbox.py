"""`stepwatch blackbox` shows what the device of a rank does beside its host."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stepwatch.cli.verbs.blackbox import device_words, ring_facts, rings_text
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.blackbox.layout import DeviceLine
from stepwatch.signals.records import DeviceState, Kind, LifecycleEvent, Op, Phase


def test_a_device_in_a_collective_and_one_that_nobody_times(tmp_path: Path) -> None:
    identity = Identity("job", 0, 3, 4, "node-1", os.getpid(), 7, 16, (1, 0, 1, 0))
    ring = RingWriter(tmp_path / "0", identity)
    facts = ring_facts(tmp_path / "0")
    assert facts["device"] is None
    assert "device" not in rings_text([facts])
    since = time.monotonic_ns() - 1
    ring.set_device(
        DeviceLine(since, 57, Phase.BACKWARD, DeviceState.IN_COLLECTIVE, Op.ALL_REDUCE, 3)
    )
    facts = ring_facts(tmp_path / "0")
    ring.close()
    device = facts["device"]
    assert (device["state"], device["step"], device["phase"]) == ("in_collective", 57, "backward")
    assert (device["collective"], device["since_seconds"] > 0) == ("all_reduce", True)
    assert "device of rank 3: in collective all_reduce in backward of step 57" in rings_text(
        [facts]
    )
    kernel = {**device, "state": "working", "collective": None, "since_seconds": 31.0}
    assert device_words(kernel) == "working in backward of step 57 for 31.00 s"


@pytest.mark.parametrize(
    ("event", "text", "process", "end"),
    [
        (LifecycleEvent.FINISH, b"", "finished", "finish"),
        (LifecycleEvent.FAILURE, b"RuntimeError: boom", "failed", "failure RuntimeError: boom"),
        (LifecycleEvent.INTERRUPT, b"", "interrupted", "interrupt"),
        (LifecycleEvent.START, b"", "ended", None),
    ],
)
def test_a_rank_that_closed_its_ring_is_called_what_it_reported(
    tmp_path: Path, event: LifecycleEvent, text: bytes, process: str, end: str | None
) -> None:
    ring = RingWriter(tmp_path / "0", Identity("job", 0, 0, 1, "node-1", os.getpid(), 7, 16))
    ring.write(Kind.LIFECYCLE, 3, time.monotonic_ns(), event, 3, text)
    ring.close()
    facts = ring_facts(tmp_path / "0")
    assert (facts["process"], facts["end"]) == (process, end)
