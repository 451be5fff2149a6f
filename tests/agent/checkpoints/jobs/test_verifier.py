"""Reported checkpoints are verified; an unreadable one is unknown, never damaged."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.checkpoints.jobs.paths import PathPieces, ReportedPath
from stepwatch.agent.checkpoints.jobs.register import MOST_OF_JOB
from stepwatch.signals.records import Kind, Verification
from stepwatch.signals.wire import Rows
from tests.agent.checkpoints.damages import cut
from tests.agent.checkpoints.written import LAYOUTS, tensors
from tests.waiting import until

from .conftest import KEY, Node, path_rows, result_of

VERIFIED, DAMAGED = Verification.VERIFIED, Verification.DAMAGED
UNKNOWN, REMOVED = Verification.UNKNOWN, Verification.REMOVED


def save(folder: Path, layout: str = "torch") -> Path:
    folder.mkdir(exist_ok=True)
    return LAYOUTS[layout](folder, tensors("weights"))


def age(path: Path, seconds: float = 600.0) -> None:
    """Set the files' last change back."""
    moment = time.time() - seconds
    for place in [path, *path.rglob("*")]:
        os.utime(place, (moment, moment))


@pytest.mark.parametrize("layout", ["torch", "huggingface", "dcp"])
def test_a_reported_checkpoint_is_verified(node: Node, tmp_path: Path, layout: str) -> None:
    node.report(save(tmp_path / "run", layout), 40)
    assert node.wait() == [(40, VERIFIED, "", "", False)]
    (row,) = node.rows[-1]
    assert row["bytes"] > 100_000 and 0 < row["seconds"] < 60 and row["rank"] == 0


def test_a_file_cut_after_the_save_is_damaged_and_named(node: Node, tmp_path: Path) -> None:
    path = save(tmp_path / "run", "huggingface")
    file = max(path.glob("*.safetensors"), key=lambda item: item.stat().st_size)
    cut(1, -1)(file)
    age(path)
    node.report(path, 40)
    (result,) = node.wait()
    assert result[:3] == (40, DAMAGED, file.name) and result.reason


def test_a_folder_that_is_being_written_is_unknown_then_verified(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    node = make_node(settle_seconds=2.0)
    path = save(tmp_path / "run", "huggingface")
    late = next(path.glob("*.safetensors"))
    shutil.move(late, tmp_path / late.name)
    node.report(path, 40)
    (first,) = node.wait()
    assert first.state is UNKNOWN
    shutil.move(tmp_path / late.name, late)
    assert node.wait(2)[-1].state is VERIFIED


def test_a_pipe_and_a_lost_path_are_unknown(node: Node, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pt")
    node.report(tmp_path / "pipe.pt", 1)
    assert node.wait()[0][:2] == (1, UNKNOWN)
    node.report(tmp_path / "elsewhere" / "a.pt", 2)
    last = node.wait(2)[-1]
    assert last[:2] == (2, UNKNOWN) and "on this node" in last.reason


def test_a_reading_that_does_not_end_is_killed_and_unknown(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    path = save(tmp_path / "run")
    node = make_node(rate=1000.0, timeout_seconds=0.5)
    node.report(path, 40)
    (result,) = node.wait()
    assert result.state is UNKNOWN and "does not answer" in result.reason


def test_the_final_name_of_a_renamed_file_is_found(node: Node, tmp_path: Path) -> None:
    path = save(tmp_path / "run")
    node.report(f"{path}.tmp", 40)
    assert node.wait() == [(40, VERIFIED, "", "", False)]
    node.report(f"{path}.tmp", 50)
    assert [item[:2] for item in node.wait(3)[1:]] == [(40, REMOVED), (50, VERIFIED)]


def test_a_replaced_and_a_deleted_checkpoint_are_removed(node: Node, tmp_path: Path) -> None:
    first, second = (save(tmp_path / name) for name in ("first", "second"))
    node.report(first, 40)
    node.wait()
    node.report(first, 50)
    results = node.wait(3)
    assert results[1] == (40, REMOVED, "", "step 50 replaced it", True)
    first.unlink()
    node.report(second, 60)
    assert node.wait(2, states=(REMOVED,))[-1][:2] == (50, REMOVED)


def test_a_checkpoint_that_was_deleted_before_it_was_read_is_removed_if_a_newer_is_there(
    node: Node, tmp_path: Path
) -> None:
    newer = save(tmp_path / "run")
    node.report(newer, 60)
    node.wait()
    node.report(tmp_path / "run" / "older.pt", 40)
    assert node.wait(2)[-1][:2] == (40, REMOVED)


def test_a_deleted_folder_is_not_a_storage_that_is_away(node: Node, tmp_path: Path) -> None:
    first, second = (save(tmp_path / name) for name in ("mount", "second"))
    node.report(first, 40)
    node.wait()
    shutil.move(tmp_path / "mount", tmp_path / "away")
    node.report(second, 60)
    node.wait(2)
    assert not node.wait(0, states=(REMOVED,))


def test_damage_is_found_later_and_only_after_two_readings(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    path = save(tmp_path / "run", "safetensors")
    age(path.parent)
    node = make_node(every_seconds=1.0)
    node.report(path, 40)
    node.wait()
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[-100] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    (result,) = node.wait(1, states=(DAMAGED,))
    assert result.again and "digest" in result.reason and result.file == path.name


def test_files_that_were_written_again_are_no_damage(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    path = save(tmp_path / "run", "safetensors")
    age(path.parent)
    node = make_node(every_seconds=0.5)
    node.report(path, 40)
    node.wait()
    LAYOUTS["safetensors"](path.parent, tensors("half"))
    node.wait(4)
    assert {result.state for result in node.results[-3:]} == {VERIFIED}


def test_the_next_agent_reads_what_its_predecessor_did_not(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    path = save(tmp_path / "run")
    first = make_node(delay_seconds=3.0)
    first.report(path, 40)
    first.stop()
    second = make_node()
    second.checkpoints.start()
    assert second.wait() == [(40, VERIFIED, "", "", False)]


def test_a_lost_piece_and_foreign_text_name_no_path() -> None:
    pieces, long = PathPieces(), "/runs/" + "a" * 200
    rows = path_rows(long, 40)

    def paths(part: Rows) -> list[ReportedPath]:
        return pieces.paths(KEY, {Kind.LIFECYCLE: part})

    assert paths(rows[:2]) == []
    assert paths(rows[2:]) == [(0, 40, long)]
    assert paths(np.delete(rows, 1)) == []
    for text in ("runs/a.pt", "/runs/\x1b[31ma.pt", "/" + "a" * 1000):
        assert paths(path_rows(text, 40)) == []


def test_saves_that_are_faster_than_the_delay_are_read(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    path = save(tmp_path / "run")
    node = make_node(delay_seconds=1.5)
    steps = iter(range(1, 1000))
    until("a result between two saves", lambda: _reported_again(node, path, next(steps)), every=0.5)
    assert node.results[-1].step > 3


def _reported_again(node: Node, path: Path, step: int) -> bool:
    """Report a save at the same path, and return whether one was verified."""
    node.report(path, step)
    for rows in node.checkpoints.collect().values():
        node.results += [result_of(row) for row in rows]
    return any(result.state is VERIFIED for result in node.results)


def test_a_second_reading_waits_for_the_pause(
    make_node: Callable[..., Node], tmp_path: Path
) -> None:
    node = make_node(pause_seconds=1000.0)
    node.report(save(tmp_path / "first"), 1)
    node.wait()
    node.report(save(tmp_path / "second"), 2)
    time.sleep(1.0)
    assert [result.step for result in node.wait()] == [1]


def test_the_register_is_bounded(make_node: Callable[..., Node], tmp_path: Path) -> None:
    node = make_node(delay_seconds=1000.0)
    for step in range(MOST_OF_JOB + 5):
        node.report(f"/runs/{step}.pt", step)
    assert len([*(tmp_path / "register").iterdir()]) == MOST_OF_JOB
    steps = {entry.step for entry in node.checkpoints._register.entries.values()}
    assert steps == {*range(5, MOST_OF_JOB + 5)}
