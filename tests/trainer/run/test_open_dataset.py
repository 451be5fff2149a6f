"""The dataset of a run on one rank: prepared, verified and opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stepwatch.signals.errors import DataError
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.shards import SHARD_BYTES
from stepwatch.trainer.parallel.runtime import Runtime
from stepwatch.trainer.run.directory import SHARDS_DIRECTORY
from stepwatch.trainer.run.open_dataset import open_dataset, shards_directory
from tests.trainer.builders import options_of


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """A run on text that fills one shard and a half."""
    text = tmp_path / "text.txt"
    text.write_bytes(b"0123456789abcde\n" * (SHARD_BYTES // 16 + SHARD_BYTES // 32))
    return options_of(f"--mesh pp=1 --length 32 --data {text}")


def _damage(run_dir: Path) -> None:
    (run_dir / SHARDS_DIRECTORY / "shard-00000.bin").write_bytes(b"x")


def test_the_dataset_holds_all_sequences(
    options: Options, tmp_path: Path, runtime: Runtime
) -> None:
    dataset = open_dataset(options, tmp_path / "run", runtime)
    assert len(dataset.dataset) == (SHARD_BYTES - 1) // 32 + SHARD_BYTES // 64
    assert dataset.quarantined_shards == []


def test_a_damaged_shard_is_named(options: Options, tmp_path: Path, runtime: Runtime) -> None:
    open_dataset(options, tmp_path, runtime)
    _damage(tmp_path)
    with pytest.raises(DataError, match=r"shard-00000\.bin is missing or changed"):
        open_dataset(options, tmp_path, runtime)


def test_a_quarantined_shard_is_not_read(
    options: Options, tmp_path: Path, runtime: Runtime
) -> None:
    complete = open_dataset(options, tmp_path, runtime)
    _damage(tmp_path)
    options = replace(options, data=replace(options.data, bad_shard="quarantine"))
    dataset = open_dataset(options, tmp_path, runtime)
    assert dataset.quarantined_shards == ["shard-00000.bin"]
    assert 0 < len(dataset.dataset) < len(complete.dataset)
    assert dataset.digest == complete.digest


def test_missing_text_is_an_error(tmp_path: Path, runtime: Runtime) -> None:
    options = options_of(f"--mesh pp=1 --data {tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="no data at"):
        open_dataset(options, tmp_path, runtime)


def test_a_directory_of_shards_is_used_in_place(
    options: Options, tmp_path: Path, runtime: Runtime
) -> None:
    open_dataset(options, tmp_path, runtime)
    shards = tmp_path / SHARDS_DIRECTORY
    reused = replace(options, data=replace(options.data, data=str(shards)))
    assert shards_directory(reused, tmp_path / "other") == shards
