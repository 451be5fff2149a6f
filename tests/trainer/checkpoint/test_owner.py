"""A checkpoint of another user is refused unread, and its metadata runs no code."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from stepwatch.signals.errors import CheckpointError, ConfigurationError
from stepwatch.trainer.checkpoint import layout
from stepwatch.trainer.checkpoint.manifest import FileEntry, entry_of, write_manifest
from stepwatch.trainer.checkpoint.metadata import METADATA_NAME, MetadataReader, read_metadata
from stepwatch.trainer.checkpoint.resume import choose_checkpoint
from stepwatch.trainer.checkpoint.write import Ranks
from stepwatch.trainer.parallel.runtime import Runtime
from stepwatch.trainer.run.directory import rank_directory
from tests.other_users import OTHER, give_away, needs_root
from tests.trainer.builders import checkpoint_manifest


def save_checkpoint(root: Path, step: int = 4) -> Path:
    """A checkpoint as DCP writes it, with a manifest of its files."""
    directory = layout.published_path(root, step)
    tensors = {
        "weight": torch.ones(4, dtype=torch.bfloat16),
        "channels": torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "number": 3,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(tensors, checkpoint_id=directory, no_dist=True)
    seal(directory, step)
    return directory


def seal(directory: Path, step: int = 4) -> None:
    files = {p.name: entry_of(p) for p in directory.iterdir() if p.name != "manifest.json"}
    manifest = checkpoint_manifest(step)
    manifest.files.update(files)
    write_manifest(directory, manifest)


class Runs:
    """An object that runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


@needs_root
@pytest.mark.parametrize("name", ["", ".metadata", "manifest.json", "__0_0.distcp"])
def test_a_checkpoint_of_another_user_is_refused_and_stays(
    tmp_path: Path, runtime: Runtime, name: str
) -> None:
    directory = save_checkpoint(tmp_path)
    give_away(directory / name)
    ranks = Ranks(runtime.rank, runtime.world, runtime.control_group)
    with pytest.raises(CheckpointError, match=f"user {OTHER}: copy the checkpoints as this user"):
        choose_checkpoint(tmp_path, ranks, {})
    assert directory.is_dir() and not (tmp_path / layout.QUARANTINE).exists()


@needs_root
def test_the_guessable_run_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    give_away(rank_directory(""))
    with pytest.raises(ConfigurationError, match=f"user {OTHER}; pass --run-dir"):
        rank_directory("")


def test_metadata_of_torch_is_read(tmp_path: Path) -> None:
    directory = save_checkpoint(tmp_path)
    data = (directory / METADATA_NAME).read_bytes()
    assert read_metadata(data) == pickle.loads(data)  # noqa: S301 - as torch reads it
    manifest = checkpoint_manifest()
    manifest.files[METADATA_NAME] = entry_of(directory / METADATA_NAME)
    tensors = {"weight": torch.zeros(4, dtype=torch.bfloat16)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(tensors, storage_reader=MetadataReader(directory, manifest), no_dist=True)
    assert tensors["weight"].tolist() == [1.0] * 4


def test_metadata_that_names_code_runs_none(tmp_path: Path) -> None:
    directory, mark = save_checkpoint(tmp_path), tmp_path / "ran"
    data = pickle.dumps(Runs(mark))
    (directory / METADATA_NAME).write_bytes(data)
    with pytest.raises(ValueError, match=r"refused: it names posix.mkdir"):
        read_metadata(data)
    manifest = checkpoint_manifest()
    manifest.files[METADATA_NAME] = FileEntry(len(data), hashlib.sha256(data).hexdigest())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CheckpointException, match=r"it names posix.mkdir"):
            load({}, storage_reader=MetadataReader(directory, manifest), no_dist=True)
    assert not mark.exists()


def test_metadata_that_is_not_the_manifests_is_not_read(tmp_path: Path) -> None:
    directory = save_checkpoint(tmp_path)
    manifest = checkpoint_manifest()
    with pytest.raises(ValueError, match="does not match its digest"):
        MetadataReader(directory, manifest).read_metadata()
    manifest.files[METADATA_NAME] = FileEntry(1, "0" * 64)
    with pytest.raises(ValueError, match="does not match its digest"):
        MetadataReader(directory, manifest).read_metadata()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        pickle.dumps({}),
        pickle.dumps(os.system),
        b"cbuiltins\ngetattr\n(ctorch\nSize\nS'x'\ntR.",
    ],
)
def test_what_is_no_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="refused"):
        read_metadata(data)


def test_a_member_of_an_enumeration_is_read_as_python_3_11_0_names_it() -> None:
    named = b"cbuiltins\ngetattr\n(ctorch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING\n"
    with pytest.raises(ValueError, match="it holds no metadata"):  # but it was made
        read_metadata(named + b"S'TORCH_CHANNELS_LAST'\ntR.")
