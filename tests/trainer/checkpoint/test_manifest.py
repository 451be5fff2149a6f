"""The manifest of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.trainer.checkpoint.manifest import read_manifest, write_manifest
from tests.trainer.builders import checkpoint_manifest


def test_a_manifest_reads_back(tmp_path: Path) -> None:
    write_manifest(tmp_path, checkpoint_manifest(seed=1))
    assert read_manifest(tmp_path) == checkpoint_manifest(seed=1)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"sha256": 1}'])
def test_an_invalid_manifest_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(ValueError, match="its manifest"):
        read_manifest(tmp_path)
