"""Shared parts of the commands that run a matrix of real runs."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepwatch.signals.errors import StepwatchError

_SHARED_MEMORY = Path("/dev/shm")
INTERRUPTED = "\ninterrupted: the table holds what was done"


def add_arguments(parser: argparse.ArgumentParser, halves: Sequence[str]) -> None:
    """Options that all of them have."""
    parser.add_argument("--half", choices=[*halves, "all"], default="all")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and the store")


@contextmanager
def folders(name: str, keep: Path | None) -> Iterator[tuple[Path, Path]]:
    """A folder for logs and the store, which is `keep` if given, and one for rings."""
    shared, prefix = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None, f"stepwatch-{name}-"
    with (
        tempfile.TemporaryDirectory(prefix=prefix) as temporary,
        tempfile.TemporaryDirectory(prefix=prefix, dir=shared) as rings,
    ):
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder, Path(rings)


def show(table: str, document: dict[str, Any], file: Path | None) -> None:
    """Print the table and write the document, if it is asked for."""
    print(f"\n{table}")
    if file is not None:
        file.write_text(json.dumps(document, indent=1) + "\n")


def command(name: str, main: Callable[[Sequence[str]], int]) -> int:
    """Call `main` with the command line; SIGTERM acts like Ctrl-C, a known error is one line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return main(sys.argv[1:])
    except StepwatchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
