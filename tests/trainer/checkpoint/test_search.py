"""The search for a valid checkpoint, and its identity."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stepwatch.signals.errors import CheckpointError
from stepwatch.trainer import integrity
from stepwatch.trainer.checkpoint import layout
from stepwatch.trainer.checkpoint.manifest import entry_of, write_manifest
from stepwatch.trainer.checkpoint.search import newest_valid, require_same_identity
from stepwatch.trainer.integrity import file_digest
from tests.trainer.builders import checkpoint_manifest


def test_a_checkpoint_without_files_is_invalid(tmp_path: Path) -> None:
    directory = layout.published_path(tmp_path, 4)
    directory.mkdir()
    write_manifest(directory, checkpoint_manifest())
    manifest, (rejection,) = newest_valid(tmp_path)
    assert manifest is None
    assert rejection.reason == "its manifest lists no file"


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.EACCES, errno.ESTALE])
def test_a_checkpoint_that_cannot_be_read_is_passed_over_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for step in (4, 8):
        directory = layout.published_path(tmp_path, step)
        directory.mkdir()
        (directory / "file").write_bytes(b"x")
        manifest = checkpoint_manifest(step)
        manifest.files["file"] = entry_of(directory / "file")
        write_manifest(directory, manifest)

    def failing(path: Path, *, from_storage: bool = False) -> str:
        if "00000008" in str(path):
            raise OSError(code, os.strerror(code))
        return file_digest(path, from_storage=from_storage)

    with monkeypatch.context() as patched:
        patched.setattr(integrity, "file_digest", failing)
        chosen, (rejection,) = newest_valid(tmp_path)
    assert chosen is not None and chosen.step == 4
    assert (rejection.step, rejection.moved_to) == (8, "left in place")
    chosen, rejections = newest_valid(tmp_path)
    assert chosen is not None and (chosen.step, rejections) == (8, [])


def test_the_first_key_that_differs_is_named_with_both_values() -> None:
    manifest = checkpoint_manifest(batch=16, seed=1)
    require_same_identity(manifest, {"batch": 16, "seed": 1})
    with pytest.raises(CheckpointError, match="has batch = 16, this run has 32"):
        require_same_identity(manifest, {"batch": 32, "seed": 2})
    with pytest.raises(CheckpointError, match="has extra = None, this run has 1"):
        require_same_identity(manifest, {"batch": 16, "extra": 1, "seed": 1})
