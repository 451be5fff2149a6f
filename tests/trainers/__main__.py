"""`python -m tests.trainers` runs the matrix of trainers and prints what stepwatch made of each.

Run it with the Python of an environment that has the frameworks and stepwatch's wheel, which
`make test-trainers` creates.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stepwatch.signals.errors import StepwatchError
from tests.services import ROOT, Services
from tests.trainers.cells import HALVES, Cell, cells, half_of
from tests.trainers.report import document, line, remarks, table
from tests.trainers.run import Done, run

_SHARED_MEMORY = Path("/dev/shm")


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.trainers",
        description=__doc__,
        epilog="example: python -m tests.trainers --only nanogpt-lines --seconds 60",
    )
    known = [cell.name for cell in cells()]
    parser.add_argument("--only", action="append", choices=known, metavar="CELL")
    parser.add_argument("--half", choices=[*HALVES, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=120.0, help="of each healthy run")
    parser.add_argument(
        "--pairs", type=int, default=2, help="of runs with and without stepwatch; 0: none"
    )
    parser.add_argument("--no-faults", action="store_true", help="healthy runs only")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and the store")
    parser.add_argument("--list", action="store_true", help="print the names of the cells")
    return parser.parse_args(words)


def chosen(asked: argparse.Namespace) -> list[Cell]:
    """The cells asked for."""
    return [
        cell
        for cell in cells()
        if (not asked.only or cell.name in asked.only) and asked.half in ("all", half_of(cell))
    ]


def run_all(asked: argparse.Namespace, folder: Path, rings: Path) -> list[Done]:
    """Run the cells one after the other; Ctrl-C ends with those that are done."""
    services, done, wanted = Services(folder, rings, [str(ROOT)]), list[Done](), chosen(asked)
    try:
        services.start()
        for number, cell in enumerate(wanted, start=1):
            print(f"{number}/{len(wanted)} {cell.name}", end="  ", flush=True)
            done.append(run(cell, services, asked.seconds, asked.pairs, faults=not asked.no_faults))
            print("\n    ".join([line(done[-1]), *remarks(done[-1])]), flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted: the table holds what was done", file=sys.stderr)
    finally:
        services.close()
    return done


def main(words: Sequence[str]) -> int:
    """Run; returns 1 if a cell is wrong, broken or missing."""
    asked = arguments(words)
    if asked.list:
        print("\n".join(cell.name for cell in cells()))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shared = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="stepwatch-trainers-") as made,
        tempfile.TemporaryDirectory(prefix="stepwatch-trainers-", dir=shared) as rings,
    ):
        folder = asked.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        done = run_all(asked, folder, Path(rings))
    print(f"\n{table(done)}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(document(done), indent=1) + "\n")
    right = all(each.right for each in done)
    return 0 if right and len(done) == len(chosen(asked)) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except StepwatchError as error:
        print(f"trainers: {error}", file=sys.stderr)
        sys.exit(1)
