"""Reads DCP's `.metadata`, a pickle, without running any code that it names.

torch reads tensors with `weights_only`, but its own metadata without it. Here the manifest's digest
covers the bytes, and only torch's metadata types are constructed from them.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

from .manifest import CheckpointManifest

METADATA_NAME = ".metadata"
_METADATA, _FILES = (
    "torch.distributed.checkpoint.metadata",
    "torch.distributed.checkpoint.filesystem",
)
_TYPES = frozenset({
    *((_METADATA, name) for name in (
        "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties", "TensorStorageMetadata",
        "ChunkStorageMetadata", "BytesStorageMetadata", "_MEM_FORMAT_ENCODING",
    )),
    (_FILES, "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
    ("collections", "OrderedDict"),
})  # fmt: skip
"""Types that torch 2.10 to 2.13 writes into the metadata for tensors and bytes."""


class MetadataReader(FileSystemReader):
    """DCP's reader for the checkpoint in `directory`, whose metadata must match `manifest`."""

    def __init__(self, directory: Path, manifest: CheckpointManifest) -> None:
        super().__init__(directory)
        self._metadata = directory / METADATA_NAME
        self._entry = manifest.files.get(METADATA_NAME)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return the metadata.

        Raises:
            ValueError: it differs from the manifest's digest, or holds anything except metadata.
            OSError: it cannot be read.
        """
        data = self._metadata.read_bytes()
        if self._entry is None or hashlib.sha256(data).hexdigest() != self._entry.sha256:
            raise ValueError(f"{METADATA_NAME} does not match its digest")
        metadata = read_metadata(data)
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id  # type: ignore[union-attr]
        return metadata


def read_metadata(data: bytes) -> Metadata:
    """Return the metadata in `data`.

    Raises:
        ValueError: it is not metadata, or names anything else.
    """
    try:
        metadata = _Unpickler(io.BytesIO(data)).load()
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{METADATA_NAME} is refused: {error}") from error
    if not isinstance(metadata, Metadata):
        raise ValueError(f"{METADATA_NAME} is refused: it holds no metadata")
    return metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return a torch metadata type, or a dtype."""
        if (module, name) in _TYPES:
            return super().find_class(module, name)
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        if (module, name) == ("builtins", "getattr"):  # Python 3.11.0 to 3.11.3 name members so
            return _member
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _member(owner: Callable[..., Any], name: str) -> Enum:
    if not isinstance(owner, type) or not issubclass(owner, Enum):
        raise pickle.UnpicklingError(f"it asks for {name!r}, which is not an enumeration")
    return owner[name]
