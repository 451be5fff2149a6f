"""The previous release, built from git history and installed beside this commit."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMIT = "d7297cc45dd2a81683b81ee6566b43ca90e4a43a"
"""The last commit that wrote segments of format 2 and rings with fixed layouts."""


class HistoryMissing(Exception):
    """The clone does not reach back to the release."""


def install(folder: Path) -> Path:
    """Build the release's wheel in `folder` and return the folder it is installed in.

    Raises:
        HistoryMissing: git has no such commit here; the message names the command that fetches it.
    """
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", COMMIT], capture_output=True
    )
    if archive.returncode != 0:
        reason = archive.stderr.decode(errors="replace").strip()
        raise HistoryMissing(
            f"the previous release {COMMIT[:7]} is not in this clone ({reason}); "
            f"fetch it: git fetch --unshallow, or git fetch origin {COMMIT}"
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder / "source", filter="data")
    wheels, installed = folder / "wheels", folder / "release"
    _pip("wheel", "--no-build-isolation", "--wheel-dir", str(wheels), str(folder / "source"))
    (wheel,) = wheels.glob("*.whl")
    _pip("install", "--target", str(installed), str(wheel))
    return installed


def _pip(verb: str, *words: str) -> None:
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", "--no-index", *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
