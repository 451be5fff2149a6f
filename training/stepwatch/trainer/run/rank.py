"""One rank, from resolved options to exit code."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.validation import refuse

from .loop import train


def run_directory(given: str) -> Path:
    """The run's directory: the given one, or one that all ranks of this launch derive alike."""
    if given:
        return Path(given).absolute()
    launch = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return Path(tempfile.gettempdir(), f"stepwatch-train-{os.getuid()}-{launch}")


def leave(code: int) -> NoReturn:
    """End the process at once, with what was printed.

    Gloo's threads may still hold tensors; freed while the interpreter shuts down, they end the
    process with "terminate called without an active exception" after all work is done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_rank(options: Options) -> NoReturn:
    """Train as the rank that torchrun's environment names, then end the process.

    Exit code: 0 done, 75 preempted with a grace checkpoint.

    Raises:
        StepwatchError: this run cannot be made.
    """
    refuse(options)
    run_dir = run_directory(options.run.run_dir)
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    leave(train(options, run_dir))
