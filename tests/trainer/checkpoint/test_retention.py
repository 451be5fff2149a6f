"""Which checkpoints are kept, and what lies around after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.signals.errors import CheckpointError
from stepwatch.trainer.checkpoint import layout
from stepwatch.trainer.checkpoint.manifest import CheckpointManifest, read_manifest, write_manifest
from stepwatch.trainer.checkpoint.search import newest_good, require_compatible

steps = st.lists(st.integers(0, 100), unique=True, max_size=12)


@given(steps, st.integers(1, 5), st.data())
def test_the_newest_and_the_newest_verified_stay(
    found: list[int], keep: int, data: st.DataObject
) -> None:
    verified = set(data.draw(st.lists(st.sampled_from(found or [0]))))
    gone = layout.expendable_steps(found, verified, keep)
    kept = set(found) - set(gone)
    assert set(sorted(found)[-keep:]) <= kept
    assert not found or not (verified & set(found)) or max(verified & set(found)) in kept
    assert len(kept) <= keep + 1


def test_only_published_checkpoints_are_seen(tmp_path: Path) -> None:
    for name in ("step-00000002", "step-00000010", ".saving-00000012", ".leaving-00000001", "x"):
        (tmp_path / name).mkdir()
    assert layout.published_steps(tmp_path) == [10, 2]
    assert layout.remove_unfinished(tmp_path) == [".leaving-00000001", ".saving-00000012"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000002", "step-00000010", "x",
    ]  # fmt: skip
    assert layout.published_steps(tmp_path / "nowhere") == []


def test_a_removed_checkpoint_is_gone(tmp_path: Path) -> None:
    layout.published_path(tmp_path, 3).mkdir()
    layout.remove_checkpoint(tmp_path, 3)
    assert list(tmp_path.iterdir()) == []


def test_quarantine_keeps_every_bad_one_with_its_reason(tmp_path: Path) -> None:
    for reason in ("first", "second"):
        layout.published_path(tmp_path, 3).mkdir()
        layout.quarantine(tmp_path, 3, reason)
    aside = tmp_path / "quarantine"
    assert (aside / "step-00000003-0.reason.txt").read_text() == "first\n"
    assert (aside / "step-00000003-1.reason.txt").read_text() == "second\n"
    assert layout.published_steps(tmp_path) == []


def _manifest(step: int = 4, **identity: object) -> CheckpointManifest:
    return CheckpointManifest(step, dict(identity), {"world": 1}, {"seed": 1})


def test_a_manifest_reads_back(tmp_path: Path) -> None:
    write_manifest(tmp_path, _manifest(seed=1))
    assert read_manifest(tmp_path) == _manifest(seed=1)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"sha256": 1}'])
def test_what_is_no_manifest_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(ValueError, match="its manifest"):
        read_manifest(tmp_path)


def test_a_checkpoint_without_files_is_not_good(tmp_path: Path) -> None:
    directory = layout.published_path(tmp_path, 4)
    directory.mkdir()
    write_manifest(directory, _manifest())
    manifest, (rejection,) = newest_good(tmp_path)
    assert manifest is None
    assert rejection.reason == "its manifest lists no file"


def test_the_first_key_that_differs_is_named_with_both_values() -> None:
    manifest = _manifest(batch=16, seed=1)
    require_compatible(manifest, {"batch": 16, "seed": 1})
    with pytest.raises(CheckpointError, match="has batch = 16, this run has 32"):
        require_compatible(manifest, {"batch": 32, "seed": 2})
    with pytest.raises(CheckpointError, match="has extra = None, this run has 1"):
        require_compatible(manifest, {"batch": 16, "extra": 1, "seed": 1})
