"""`stepwatch blackbox` shows what the device of a rank does beside its host."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from stepwatch.agent.rings.copies import FOLDER, RingCopies
from stepwatch.cli.main import main
from stepwatch.cli.verbs.blackbox import device_words, ring_facts, rings_text
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter
from stepwatch.signals.blackbox.layout import DeviceLine
from stepwatch.signals.errors import RingError
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


def test_a_ring_that_cannot_be_read_is_said_in_words(tmp_path: Path) -> None:
    link, junk = tmp_path / "link", tmp_path / "junk"
    link.symlink_to(junk)
    junk.write_bytes(bytes(100))
    for path, why in (
        (tmp_path / "none", "no such file"),
        (link, "it is a link"),
        (junk, "not a stepwatch ring"),
    ):
        with pytest.raises(RingError) as raised:
            RingReader(path)
        assert str(raised.value) == f"cannot read the ring {path}: {why}"


def test_the_ring_of_a_job_that_ended_is_found_in_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rings, spool = tmp_path / "rings", tmp_path / "spool"
    monkeypatch.setenv("STEPWATCH_RING_DIR", str(rings))
    for job, rank in (("ended", 0), ("ended", 1), ("runs", 0)):
        identity = Identity(job, 2, rank, 2, "node-1", os.getpid(), 7, 16)
        RingWriter(rings / job / "2" / str(rank), identity).close()
    copies = RingCopies(spool / FOLDER)
    for rank in (0, 1):
        reader = RingReader(rings / "ended/2" / str(rank))
        copies.keep(reader, "ended")
        reader.path.unlink()
        reader.close()

    def shown(*words: str) -> str:
        assert main(["blackbox", *words, "--spool", str(spool)]) == 0
        return capsys.readouterr().out

    for selection, ranks in (("ended", 2), ("ended/2", 2), ("ended/2/1", 1)):
        assert len(json.loads(shown(selection, "--json"))["rings"]) == ranks
    listing = shown()
    assert "runs, attempt 2" in listing and "2 rings of ended ranks are kept in" in listing
    assert main(["blackbox", "neither", "--spool", str(spool)]) == 2
    assert f"nor a copy of one below {spool / FOLDER}" in capsys.readouterr().err


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
