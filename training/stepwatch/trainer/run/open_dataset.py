"""Opening the data on every rank: the leader prepares it, all verify it together."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from stepwatch.signals.errors import DataError
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.data.dataset import Dataset
from stepwatch.trainer.data.manifest import MANIFEST_NAME, Manifest, read_manifest
from stepwatch.trainer.data.shards import prepare_shards, shard_fault
from stepwatch.trainer.parallel.runtime import Runtime

from .launch import SHARDS_DIRECTORY


def shards_directory(options: Options, run_dir: Path) -> Path:
    """Where the shards lie: below the run, or where `--data` already is a sharded data set."""
    given = options.data.data
    if given and (Path(given) / MANIFEST_NAME).is_file():
        return Path(given)
    return run_dir / SHARDS_DIRECTORY


def _prepare_once(options: Options, run_dir: Path, runtime: Runtime) -> None:
    failure: DataError | None = None
    if runtime.leads:
        try:
            prepare_shards(
                run_dir / SHARDS_DIRECTORY, options.data.data or None, options.data.data_bytes
            )
        except DataError as error:
            failure = error
    flag = torch.tensor([1 if failure else 0], dtype=torch.int32)
    dist.broadcast(flag, group=runtime.side, group_src=0)
    if flag.item():
        raise failure or DataError("the data cannot be used; rank 0 says why")


def _verify_together(directory: Path, manifest: Manifest, runtime: Runtime) -> list[int]:
    """Indices of bad shards; each rank reads its share of them and all learn the result."""
    bad = torch.zeros(len(manifest.shards), dtype=torch.int32)
    for index in range(runtime.rank, len(manifest.shards), runtime.world):
        if (fault := shard_fault(directory, manifest.shards[index])) is not None:
            print(f"bad shard: {fault}", file=sys.stderr, flush=True)
            bad[index] = 1
    dist.all_reduce(bad, dist.ReduceOp.MAX, group=runtime.side)
    return [index for index, flag in enumerate(bad.tolist()) if flag]


@dataclass(frozen=True)
class Opened:
    """The verified data: its sequences, the digest of its manifest, shards in quarantine."""

    dataset: Dataset
    digest: str
    left_out: list[str]


def open_data(options: Options, run_dir: Path, runtime: Runtime) -> Opened:
    """Prepare, verify and open the data set.

    Raises:
        DataError: there is no data, or a shard is bad and the policy is to fail.
    """
    _prepare_once(options, run_dir, runtime)
    directory = shards_directory(options, run_dir)
    manifest = read_manifest(directory)
    bad = _verify_together(directory, manifest, runtime)
    names = [manifest.shards[index].file for index in bad]
    if bad and options.data.bad_shard == "fail":
        raise DataError(
            f"{directory / names[0]} is missing or changed since its manifest: restore it, or "
            "leave it out with --bad-shard quarantine"
        )
    dataset = Dataset(directory, manifest, options.model.length, frozenset(bad))
    return Opened(dataset, manifest.digest, names)
