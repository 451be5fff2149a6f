"""Runs one check in this process and appends each finding to a file as one line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from .finding import write
from .place import Place


def main(name: str, kind: str, path: str) -> None:
    """Run the check `name` on a device of type `kind`."""
    module = importlib.import_module(f"tests.gpu.checks.{name}")
    write(Path(path), module.check(Place(kind)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
