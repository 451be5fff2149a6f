"""One rank, from resolved options to exit code."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .loop import train
from .options import Options
from .refusals import refuse


def run_directory(given: str) -> Path:
    """The run's directory: the given one, or one that all ranks of this launch derive alike."""
    if given:
        return Path(given).absolute()
    launch = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return Path(tempfile.gettempdir(), f"stepwatch-train-{os.getuid()}-{launch}")


def run_rank(options: Options) -> int:
    """Train as the rank that torchrun's environment names; returns the exit code.

    Raises:
        StepwatchError: this run cannot be made.
    """
    refuse(options)
    run_dir = run_directory(options.run.run_dir)
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return train(options, run_dir)
