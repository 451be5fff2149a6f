"""Digests of files, and JSON documents that hold their own digest."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.trainer.integrity import file_digest, file_error, read_sealed, sealed_bytes

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.text().filter(lambda name: name not in {"sha256", "version"})


@given(st.dictionaries(names, values, max_size=4))
def test_a_sealed_document_reads_back(
    tmp_path_factory: pytest.TempPathFactory, body: dict[str, object]
) -> None:
    path = tmp_path_factory.getbasetemp() / "document.json"
    path.write_bytes(sealed_bytes(body, 3))
    assert read_sealed(path, 3) == body


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "no digest or version"),
        (b'{"version": 3}', "no digest or version"),
        (b'{"version": 3, "sha256": "x"}', "does not match its own digest"),
        (sealed_bytes({"a": 1}, 3).replace(b'"a": 1', b'"a": 2'), "does not match its own digest"),
        (sealed_bytes({"a": 1}, 4), "has format version 4, this release reads 3"),
    ],
)
def test_an_invalid_document_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        read_sealed(path, 3)


def test_a_document_that_is_missing_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_sealed(path, 3)
    with path.open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(ValueError, match="is larger than"):
        read_sealed(path, 3)


@pytest.mark.parametrize("from_storage", [False, True])
def test_a_file_is_compared_with_its_size_and_digest(tmp_path: Path, from_storage: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    digest = file_digest(path)

    def error(name: str = "file", size: int = 7) -> str | None:
        return file_error(tmp_path, name, size, digest, from_storage=from_storage)

    assert error() is None
    assert error(size=8) == "file has 7 bytes instead of 8"
    assert error(name="other") == "other: No such file or directory"
    assert error(name=f"../{tmp_path.name}/file") == (
        f"../{tmp_path.name}/file is not a plain file name"
    )
    path.write_bytes(b"c0ntent")
    assert error() == "file does not match its digest"
