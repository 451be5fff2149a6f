"""Files that a check leaves for an investigation: traces, a collector's store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ENV_KEEP = "STEPWATCH_GPU_KEEP"
"""The folder for such files; without it they are dropped."""


def keep(path: Path, name: str) -> None:
    """Copy a file there."""
    folder = os.environ.get(ENV_KEEP)
    if folder and path.exists():
        shutil.copy(path, Path(folder) / name)
