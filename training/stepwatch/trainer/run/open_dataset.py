"""Opens the dataset on every rank: rank 0 prepares it, all ranks verify its shards."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from stepwatch.signals.errors import DataError
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.dataset import Dataset
from stepwatch.trainer.data.held_out import held_out_bytes, write_held_out
from stepwatch.trainer.data.manifest import MANIFEST_NAME, Manifest, read_manifest
from stepwatch.trainer.data.shards import prepare_shards, shard_error
from stepwatch.trainer.parallel.runtime import Runtime

from .directory import SHARDS_DIRECTORY


def shards_directory(options: Options, run_dir: Path) -> Path:
    """Return the shards' directory: `--data` if it holds a manifest, else below `run_dir`."""
    directory = options.data.data
    if directory and (Path(directory) / MANIFEST_NAME).is_file():
        return Path(directory)
    return run_dir / SHARDS_DIRECTORY


def _prepare(options: Options, directory: Path) -> None:
    data, used = options.data.data or None, options.data.data_bytes
    prepare_shards(directory, data, used)
    if options.evaluation.eval_every:
        batch, length = options.parallel.batch, options.model.length
        size = held_out_bytes(options.evaluation.eval_batches, batch, length)
        write_held_out(directory, data, used, size)


def _prepare_once(options: Options, run_dir: Path, runtime: Runtime) -> None:
    failure: DataError | None = None
    if runtime.is_leader:
        try:
            _prepare(options, run_dir / SHARDS_DIRECTORY)
        except DataError as error:
            failure = error
    flag = torch.tensor([1 if failure else 0], dtype=torch.int32)
    dist.broadcast(flag, group=runtime.control_group, group_src=0)
    if flag.item():
        raise failure or DataError("the data cannot be used; rank 0 prints the reason")


def _damaged_shards(directory: Path, manifest: Manifest, runtime: Runtime) -> list[int]:
    """Return the indices of damaged shards on every rank; each rank reads a part of the shards."""
    bad = torch.zeros(len(manifest.shards), dtype=torch.int32)
    for index in range(runtime.rank, len(manifest.shards), runtime.world):
        if (reason := shard_error(directory, manifest.shards[index])) is not None:
            print(f"bad shard in {directory}: {reason}", file=sys.stderr, flush=True)
            bad[index] = 1
    dist.all_reduce(bad, dist.ReduceOp.MAX, group=runtime.control_group)
    return [index for index, flag in enumerate(bad.tolist()) if flag]


@dataclass(frozen=True)
class VerifiedDataset:
    """A dataset with verified shards, its manifest's digest and the excluded shards."""

    dataset: Dataset
    digest: str
    quarantined_shards: list[str]


def open_dataset(options: Options, run_dir: Path, runtime: Runtime) -> VerifiedDataset:
    """Prepare, verify and open the dataset.

    Raises:
        DataError: there is no data, or a shard is damaged and `--bad-shard` is `fail`.
    """
    _prepare_once(options, run_dir, runtime)
    directory = shards_directory(options, run_dir)
    manifest = read_manifest(directory)
    bad = _damaged_shards(directory, manifest, runtime)
    names = [manifest.shards[index].file for index in bad]
    if bad and options.data.bad_shard == "fail":
        raise DataError(
            f"{directory / names[0]} is missing or changed since its manifest: restore it, or "
            "train without it: --bad-shard quarantine"
        )
    dataset = Dataset(directory, manifest, options.model.length, frozenset(bad))
    return VerifiedDataset(dataset, manifest.digest, names)
