"""Grafana's npm packages, installed once into a folder of the checkout and run by node.

The lock file names versions and digests and no registry: npm uses its configured one.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
PLACE = HERE.parents[2] / ".venv-node"
"""Like a Python environment: git ignores it, and `make clean` removes it."""
_FILES = ("package.json", "package-lock.json", ".npmrc")
_INSTALL_SECONDS, _RUN_SECONDS = 600, 300


def install() -> Path:
    """The folder with `node_modules`, installed where it is missing or of another lock file.

    Processes that ask at once wait for the first.

    Raises:
        AssertionError: npm is missing or fails.
    """
    PLACE.mkdir(exist_ok=True)
    digest = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _FILES)).hexdigest()
    ready = PLACE / ".ready"
    with (PLACE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists() or ready.read_text() != digest:
            for name in _FILES:
                shutil.copy(HERE / name, PLACE)
            _run(_program("npm"), "ci", "--no-progress", seconds=_INSTALL_SECONDS)
            ready.write_text(digest)
    return PLACE


def node(*words: str | Path) -> str:
    """Run node on a script of this folder, given by name, and return its output.

    Raises:
        AssertionError: it fails.
    """
    install()
    script, *arguments = words
    return _run(_program("node"), str(HERE / script), *map(str, arguments))


def tsc(*files: Path) -> subprocess.CompletedProcess[str]:
    """Run TypeScript's compiler over files; its standard output has the errors."""
    words = [
        _program("node"), str(install() / "node_modules/typescript/bin/tsc"), "--noEmit",
        "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext",
        "--moduleResolution", "bundler", *map(str, files),
    ]  # fmt: skip
    return subprocess.run(
        words, cwd=PLACE, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
    )


def _program(name: str) -> str:
    path = shutil.which(name)
    assert path, f"{name} is missing; tests/install-tools installs it"
    return path


def _run(*words: str, seconds: int = _RUN_SECONDS) -> str:
    completed = subprocess.run(
        words, cwd=PLACE, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert completed.returncode == 0, (
        f"{' '.join(words)}: {(completed.stderr or completed.stdout)[-2000:]}"
    )
    return completed.stdout
