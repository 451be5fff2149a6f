"""The search for a valid checkpoint, and its identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.signals.errors import CheckpointError
from stepwatch.trainer.checkpoint import layout
from stepwatch.trainer.checkpoint.manifest import write_manifest
from stepwatch.trainer.checkpoint.search import newest_valid, require_same_identity
from tests.trainer.made import checkpoint_manifest


def test_a_checkpoint_without_files_is_invalid(tmp_path: Path) -> None:
    directory = layout.published_path(tmp_path, 4)
    directory.mkdir()
    write_manifest(directory, checkpoint_manifest())
    manifest, (rejection,) = newest_valid(tmp_path)
    assert manifest is None
    assert rejection.reason == "its manifest lists no file"


def test_the_first_key_that_differs_is_named_with_both_values() -> None:
    manifest = checkpoint_manifest(batch=16, seed=1)
    require_same_identity(manifest, {"batch": 16, "seed": 1})
    with pytest.raises(CheckpointError, match="has batch = 16, this run has 32"):
        require_same_identity(manifest, {"batch": 32, "seed": 2})
    with pytest.raises(CheckpointError, match="has extra = None, this run has 1"):
        require_same_identity(manifest, {"batch": 16, "extra": 1, "seed": 1})
