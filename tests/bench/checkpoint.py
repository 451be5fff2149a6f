"""Reading speed of the checkpoint verifier beside `cat` of the same file."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from stepwatch.agent.checkpoints import Limits, Options, State, verify
from tests.agent.checkpoints.written import dcp_folder, write_safetensors

from .result import Result

BYTES, ROUNDS = 1 << 30, 5
BUDGET = "70 % of cat"


def measure() -> Iterator[Result]:
    """Measure a file in memory and on the disk, each read in turn by both."""
    for place, folder in (("memory", "/dev/shm"), ("disk", tempfile.gettempdir())):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            for layout, path in _checkpoints(Path(name)):
                yield _compare(layout, place, path)


def _checkpoints(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield one checkpoint after the other, with 1 GiB of tensors each."""
    tensors = {f"layer.{n}.weight": torch.randn(1 << 22) for n in range(BYTES >> 24)}
    path = folder / "model.pt"
    torch.save(tensors, path)
    yield "torch.save", path
    path.unlink()
    path = folder / "model.safetensors"
    write_safetensors(path, tensors)
    yield "safetensors", path
    path.unlink()
    path = folder / "dcp"
    path.mkdir()
    yield "DCP", dcp_folder(path, tensors, single_file=True)


def _compare(layout: str, place: str, path: Path) -> Result:
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    _sync(files)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(_seconds(files, lambda: _cat(files)))
        ours.append(_seconds(files, lambda: _verify(path)))
    # `cat` moves no bytes of a file in memory to /dev/null.
    budget = BUDGET if place == "disk" else "none"
    share = min(theirs) / min(ours)
    rate, other_rate = size / min(ours) / 1e9, size / min(theirs) / 1e9
    return Result(
        f"verify {layout}, {size / 1e9:.2f} GB, {place}",
        f"{100 * share:.0f} % of cat",
        budget,
        f"{rate:.2f} GB/s, cat {other_rate:.2f} GB/s",
    )


def _cat(files: list[Path]) -> None:
    subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)


def _verify(path: Path) -> None:
    report = verify(str(path), Options(limits=Limits(settle_seconds=0.0)))
    assert report.state == State.VERIFIED, report


def _sync(files: list[Path]) -> None:
    for file in files:
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def _seconds(files: list[Path], act: Callable[[], object]) -> float:
    """Return the seconds of a call; the files on a disk are not in memory when it begins."""
    for file in files:
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
