"""Compiles the device once per version of its source and of torch, and keeps the result."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch.utils import cpp_extension

SOURCE = Path(__file__).parent / "source"
MODULE = "simulated_device"
FLAGS = (
    "-O1",
    "-std=c++20",
    "-fPIC",
    "-Wall",
    "-DUSE_DISTRIBUTED",
    "-DUSE_C10D_GLOO",
    f"-DTORCH_EXTENSION_NAME={MODULE}",
)
LIBRARIES = ("-lc10", "-ltorch", "-ltorch_cpu", "-ltorch_python")
INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)
KEPT_SECONDS = 30 * 24 * 3600


class BuildError(RuntimeError):
    """The device cannot be built; the message says why."""


def cache_directory() -> Path:
    """Return the folder of builds, below the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stepwatch-tests" / "simulated-device"


def _digest(*texts: str) -> str:
    environment = (torch.__version__, sys.version, *FLAGS)
    return hashlib.sha256("\0".join((*environment, *texts)).encode()).hexdigest()[:20]


def _with_headers(source: Path) -> str:
    """Return the text of a file and of the headers it includes, so that others do not count."""
    files: list[Path] = []
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path not in files:
            files.append(path)
            waiting += [SOURCE / name for name in INCLUDE.findall(path.read_text())]
    return "".join(path.read_text() for path in [source, *sorted(files[1:])])


def _compiler() -> str:
    wanted = os.environ.get("CXX", "g++")
    path = shutil.which(wanted)
    if path is None:
        raise BuildError(f"the simulated device needs a C++ compiler, and {wanted} is not there")
    return path


def _run_compiler(command: Sequence[str], output: Path) -> None:
    """Run a command that writes a file; the file appears only when it is complete."""
    unfinished = output.with_name(f"{output.name}.{os.getpid()}")
    completed = subprocess.run([*command, "-o", str(unfinished)], capture_output=True, text=True)
    if completed.returncode:
        errors = [line for line in completed.stderr.splitlines() if "error" in line]
        raise BuildError(f"{command[-1]}: {'; '.join(errors[:3]) or completed.stderr[-500:]}")
    unfinished.rename(output)


def _compile(compiler: str, source: Path, cache: Path) -> Path:
    built = cache / f"{source.stem}-{_digest(_with_headers(source))}.o"
    if not built.exists():
        places = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
        includes = [word for place in places for word in ("-isystem", place)]
        _run_compiler([compiler, *FLAGS, *includes, "-c", str(source)], built)
    built.touch()
    return built


def _link(compiler: str, parts: Sequence[Path], output: Path) -> None:
    places = [f"-L{place}" for place in cpp_extension.library_paths()]
    _run_compiler([compiler, "-shared", *map(str, parts), *places, *LIBRARIES], output)


def _drop_old(cache: Path, newest: Path) -> None:
    for path in cache.rglob("*.*o"):
        if newest.stat().st_mtime - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink(missing_ok=True)


def library() -> Path:
    """Return the compiled module; a version's first call builds it, in about half a minute.

    Concurrent processes wait for the one that builds.

    Raises:
        BuildError: there is no compiler, or the source does not compile.
    """
    sources = sorted(SOURCE.glob("*.cpp"))
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    digest = _digest(*map(_with_headers, sources))
    built = cache / digest / f"{MODULE}.so"
    if built.exists():
        return built
    compiler = _compiler()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            built.parent.mkdir(exist_ok=True)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                jobs = [pool.submit(_compile, compiler, path, cache) for path in sources]
                parts = [job.result() for job in jobs]
            _link(compiler, parts, built)
            _drop_old(cache, built)
    return built
