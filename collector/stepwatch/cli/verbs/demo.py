"""`stepwatch demo`: everything on this machine, one injected fault, a verdict."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepwatch.cli.demo.plan import DRILLED, FAULT, STEPS, make_plan
from stepwatch.signals.arguments import positive_seconds
from stepwatch.signals.errors import ConfigurationError

EXAMPLE = "stepwatch demo --fault slow-data:rank=1,step=15 --keep out"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps to train [{STEPS}]")
    parser.add_argument(
        "--fault",
        action="append",
        metavar="NAME[:key=value,...]",
        help=f"none, {', '.join(DRILLED)}; repeatable [{FAULT}]",
    )
    parser.add_argument("--data", type=Path, help="text files to train on [Python's own source]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep store, logs, checkpoints")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--port", type=int, help="of the page; in use is an error [8480 or free]")
    parser.add_argument("--hold", action="store_true", help="keep the page open until Ctrl-C")
    parser.add_argument(
        "--timeout", type=positive_seconds, default=600.0, help="seconds before giving up"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo."""
    from stepwatch.cli.demo.run import run_demo

    _refuse_unwritable(arguments.json)
    return run_demo(make_plan(arguments), arguments.json)


def _refuse_unwritable(file: Path | None) -> None:
    """Check that the report file can be written before the run, since it is written at the end.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        if file is not None:
            file.touch()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {file}: {error.strerror}; pass another --json"
        ) from error
