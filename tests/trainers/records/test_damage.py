"""One changed byte in a checkpoint is what the verifier finds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stepwatch.agent.checkpoints import Options
from stepwatch.agent.checkpoints.result import State
from stepwatch.agent.checkpoints.verification import verify

from .damage import change_byte


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_changed_byte_is_found_in_its_file(tmp_path: Path, is_folder: bool) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    file = folder / "optimizer.pt"
    torch.save({"weights": torch.arange(1000.0), "step": 3}, file)
    torch.save({"step": 3}, folder / "small.pt")
    (folder / "notes.txt").write_text("x" * 10_000)
    place = folder if is_folder else file
    assert verify(str(place), Options()).state is State.VERIFIED
    before = file.read_bytes()
    assert change_byte(place) == file
    changed = [old != new for old, new in zip(before, file.read_bytes(), strict=True)]
    assert sum(changed) == 1
    report = verify(str(place), Options())
    assert report.state is State.DAMAGED and "CRC" in report.problems[0].reason


def test_a_folder_without_checksums_cannot_be_damaged_so(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    with pytest.raises(ValueError):
        change_byte(tmp_path)
