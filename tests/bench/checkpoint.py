"""Reading speed of the checkpoint verifier beside `cat` of the same file."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import torch

from stepwatch.agent.checkpoints import Limits, Options, State, verify_supervised
from stepwatch.agent.checkpoints.verification import verify
from tests.agent.checkpoints.written import dcp_folder, write_safetensors

from .result import Result

BYTES, ROUNDS = 1 << 30, 5
STEPS, STEP_BYTES = 60, 1 << 20
BUDGET = "70 % of cat"


def measure() -> Iterator[Result]:
    """Measure a file in memory and on the disk, each read in turn by both."""
    for place, folder in (("memory", "/dev/shm"), ("disk", tempfile.gettempdir())):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            for layout, path in _checkpoints(Path(name)):
                yield _compare(layout, place, path)
    yield _beside_a_loop(None)
    yield _beside_a_loop(200e6)


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


def _beside_a_loop(rate: float | None) -> Result:
    """Compare a loop's median step alone and beside the verifier's process, in turns."""
    with tempfile.TemporaryDirectory() as name:
        path, data = Path(name) / "model.pt", Path(name) / "data"
        torch.save({f"{n}": torch.randn(1 << 22) for n in range(BYTES >> 24)}, path)
        data.write_bytes(os.urandom(STEPS * STEP_BYTES))
        _sync([path, data])
        alone, beside = list[float](), list[float]()
        for _ in range(2 * ROUNDS):
            alone += _steps(data)
            stop = Event()
            with ThreadPoolExecutor(1) as background:
                work = background.submit(_verify_until, path, rate, stop)
                beside += _steps(data)
                stop.set()
                count = work.result()
    slower = statistics.median(beside) / statistics.median(alone) - 1
    words = "at full speed" if rate is None else f"at {rate / 1e6:.0f} MB/s"
    return Result(
        f"a loop that reads the same disk, beside the verifier {words}",
        f"{100 * slower:+.1f} %",
        "none" if rate is None else "+1 %",
        f"step of {1e3 * statistics.median(alone):.1f} ms; {count} verifications in the last turn",
    )


def _verify_until(path: Path, rate: float | None, stop: Event) -> int:
    """Verify again and again, each time for a second at most; return how often."""
    count = 0
    while not stop.is_set():
        verify_supervised(str(path), Options(timeout_s=1.0, rate=rate))
        count += 1
    return count


def _steps(data: Path) -> list[float]:
    """Return the seconds of each step: read its data from the disk, multiply matrices."""
    matrix, seconds = torch.randn(512, 512), []
    with data.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(STEPS):
            began = time.perf_counter()
            file.read(STEP_BYTES)
            for _ in range(10):
                matrix = torch.nn.functional.normalize(matrix @ matrix)
            seconds.append(time.perf_counter() - began)
    return seconds


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
