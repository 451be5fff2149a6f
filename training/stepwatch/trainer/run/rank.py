"""One rank, from resolved options to exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.validation import validate

from .directory import rank_directory
from .loop import train


def leave(code: int) -> NoReturn:
    """Flush the output and end the process without the interpreter's shutdown.

    Gloo threads may still hold tensors. If the shutdown frees them, the process aborts with
    "terminate called without an active exception" after all work is done.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError):  # the reader is gone; the training's outcome stays
            stream.flush()
    os._exit(code)


def run_rank(options: Options) -> NoReturn:
    """Train as the rank that torchrun's environment names, then end the process.

    Exit code: 0 done, 75 preempted with a last checkpoint.

    Raises:
        StepwatchError: the options, the data, a checkpoint or the environment cannot be used.
    """
    validate(options)
    leave(train(options, rank_directory(options.run.run_dir)))
