"""Shards and their manifest: how they are built, and which changes are detected."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.signals.errors import DataError
from stepwatch.trainer.data.manifest import MANIFEST_NAME, read_manifest
from stepwatch.trainer.data.shards import SHARD_BYTES, prepare_shards, shard_error

LIMIT = 8 << 20


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A directory of text files, one binary file, one empty file and a hidden one."""
    root = tmp_path / "text"
    (root / "deeper").mkdir(parents=True)
    (root / "b.txt").write_text("second\n")
    (root / "a.txt").write_text("first\n")
    (root / "deeper" / "c.md").write_text("third")
    (root / "image.bin").write_bytes(b"\x89\0\0")
    (root / "empty.txt").write_text("")
    (root / ".hidden").write_text("no")
    return root


def test_text_files_are_joined_in_sorted_order(tmp_path: Path, text: Path) -> None:
    manifest = prepare_shards(tmp_path / "shards", str(text), LIMIT)
    (shard,) = manifest.shards
    content = (tmp_path / "shards" / shard.file).read_bytes()
    assert content == b"first\n\nsecond\n\nthird\n"
    assert shard.tokens == shard.size == len(content)
    assert [source.path for source in manifest.sources] == ["a.txt", "b.txt", "deeper/c.md"]


def test_the_same_text_gives_the_same_shards_anywhere(tmp_path: Path, text: Path) -> None:
    first = prepare_shards(tmp_path / "one", str(text), LIMIT)
    repeated = prepare_shards(tmp_path / "two", str(text), LIMIT)
    assert first.digest == repeated.digest


def test_long_text_is_cut_into_equal_shards_and_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"0123456789abcde\n" * (SHARD_BYTES // 4))
    manifest = prepare_shards(tmp_path / "shards", str(path), 3 * SHARD_BYTES)
    assert [shard.size for shard in manifest.shards] == [SHARD_BYTES] * 3 + [1]
    assert manifest.sources[0].size == 3 * SHARD_BYTES


def test_the_default_text_is_pythons_own_library(tmp_path: Path) -> None:
    manifest = prepare_shards(tmp_path / "shards", None, 100_000)
    assert sum(source.size for source in manifest.sources) == 100_000
    assert all(source.path.endswith(".py") for source in manifest.sources)
    assert not any("site-packages" in source.path for source in manifest.sources)


@pytest.mark.parametrize("change", ["edit", "remove", "add"])
def test_a_changed_source_file_is_named(tmp_path: Path, text: Path, change: str) -> None:
    prepare_shards(tmp_path / "shards", str(text), LIMIT)
    if change == "edit":
        (text / "b.txt").write_text("changed\n")
    elif change == "remove":
        (text / "b.txt").unlink()
    else:
        (text / "b2.txt").write_text("new\n")
    with pytest.raises(DataError, match=r"b2?\.txt (changed|vanished) since its manifest"):
        prepare_shards(tmp_path / "shards", str(text), LIMIT)


def test_another_source_is_refused(tmp_path: Path, text: Path) -> None:
    prepare_shards(tmp_path / "shards", str(text), LIMIT)
    with pytest.raises(DataError, match="the shards were made from"):
        prepare_shards(tmp_path / "shards", str(text / "a.txt"), LIMIT)


def test_a_directory_of_shards_is_used_in_place(tmp_path: Path, text: Path) -> None:
    shards = prepare_shards(tmp_path / "shards", str(text), LIMIT)
    assert prepare_shards(tmp_path / "elsewhere", str(tmp_path / "shards"), LIMIT) == shards
    assert not (tmp_path / "elsewhere").exists()


def test_missing_and_empty_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no data at .*: name a text file or a directory"):
        prepare_shards(tmp_path / "shards", str(tmp_path / "nowhere"), LIMIT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no text in"):
        prepare_shards(tmp_path / "shards", str(tmp_path / "empty"), LIMIT)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path, text: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write shards"):
        prepare_shards(tmp_path / "file" / "shards", str(text), LIMIT)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is damaged"),
        (b"[]", "is damaged"),
        (b"{}", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b'{"sha256": "x", "version": 1}', "does not match its own digest"),
    ],
)
def test_an_invalid_manifest_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_manifest(tmp_path)


def test_an_edited_manifest_is_refused(tmp_path: Path, text: Path) -> None:
    prepare_shards(tmp_path / "shards", str(text), LIMIT)
    path = tmp_path / "shards" / MANIFEST_NAME
    path.write_bytes(path.read_bytes().replace(b'"tokens": 21', b'"tokens": 23'))
    with pytest.raises(DataError, match="does not match its own digest"):
        read_manifest(tmp_path / "shards")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [("flip", "does not match its digest"), ("cut", "bytes"), ("remove", "No such file")],
)
def test_a_damaged_shard_is_detected(tmp_path: Path, text: Path, harm: str, reason: str) -> None:
    root = tmp_path / "shards"
    (shard,) = prepare_shards(root, str(text), LIMIT).shards
    assert shard_error(root, shard) is None
    path = root / shard.file
    content = path.read_bytes()
    if harm == "flip":
        path.write_bytes(b"F" + content[1:])
    elif harm == "cut":
        path.write_bytes(content[:-1])
    else:
        path.unlink()
    assert reason in (shard_error(root, shard) or "")


def test_a_shard_outside_its_directory_is_invalid(tmp_path: Path, text: Path) -> None:
    root = tmp_path / "shards"
    (shard,) = prepare_shards(root, str(text), LIMIT).shards
    stray = type(shard)(f"../shards/{shard.file}", shard.size, shard.sha256, shard.tokens)
    assert "not a plain file name" in (shard_error(root, stray) or "")
