"""`stepwatch train`: the reference trainer."""

from __future__ import annotations

import argparse
import os

from stepwatch.trainer.config import configure
from stepwatch.trainer.run import launch

EXAMPLE = configure.EXAMPLE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Start the ranks, or run as a rank if torchrun started this process."""
    options = configure.resolve(arguments)
    if launch.under_torchrun(os.environ):
        from stepwatch.trainer.run.rank import run_rank

        run_rank(options)
    return launch.launch(options, arguments.fault)
