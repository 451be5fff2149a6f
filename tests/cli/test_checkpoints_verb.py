"""`stepwatch checkpoints` shows what agents found in checkpoints, and the recovery point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwatch.cli.main import OK, PROBLEM, main
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.records import CheckpointEvent, Kind, Verification
from tests.collector.made import JOB, HandClock, body, checkpoint_rows, run_segments, segment
from tests.collector.state.trackers.test_checkpoints import read_rows

CUT = {"file": b"optimizer.pt", "reason": b"it is cut short"}


def store_of(path: Path, *found: tuple[int, Verification, dict[str, Any]]) -> Path:
    """A store with a job of 40 steps, and the checkpoints that its agent read."""
    opened = Store.sqlite(path)
    service = Service(opened, HandClock(30.0))
    service.receive(body(run_segments(40)))
    for number, (step, state, fields) in enumerate(found):
        tables = {
            Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.BEGIN, range(4), step),
            Kind.VERIFICATION: read_rows(step, state, path=f"/runs/a/{step}", **fields),
        }
        service.receive(body([segment(100 + number, tables)]))
    service.evaluate()
    opened.close()
    return path


def shown(store: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the output."""
    capsys.readouterr()
    code = main(["checkpoints", *words, "--store", str(store)])
    return code, capsys.readouterr().out


def test_the_newest_good_one_and_the_loss_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(
        tmp_path / "store.db",
        (8, Verification.REMOVED, {}),
        (16, Verification.VERIFIED, {"bytes": 14_200_000}),
        (24, Verification.UNKNOWN, {"reason": b"no permission"}),
        (32, Verification.DAMAGED, CUT),
    )
    code, text = shown(store, capsys, JOB)
    assert code == PROBLEM
    words = " ".join(text.split())
    assert (
        "newest good checkpoint: step 16 in /runs/a/16; a resume now would lose 23 steps" in words
    )
    rows = [line.split()[:2] for line in text.splitlines() if line.split()[:1] in (["8"], ["16"])]
    assert rows == [["16", "verified"], ["8", "removed"]]
    assert "optimizer.pt: it is cut short" in text and "no permission" in text
    assert "14.2 MB" in text


def test_json_has_the_document_and_a_good_newest_one_is_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "store.db", (16, Verification.VERIFIED, {}))
    code, text = shown(store, capsys, JOB, "--json")
    document = json.loads(text)
    assert code == OK and document["recovery"]["step"] == 16
    assert document["checkpoints"][0]["state"] == "verified"
    code, text = shown(store, capsys)
    assert code == OK and text.startswith(f"{JOB}: "), "all jobs"


def test_without_a_good_one_the_loss_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "store.db", (16, Verification.WAITING, {}))
    code, text = shown(store, capsys, JOB)
    assert code == OK and "is unknown" in " ".join(text.split()) and "not verified yet" in text
    none = store_of(tmp_path / "none.db")
    assert "no checkpoint is known" in shown(none, capsys, JOB)[1]
