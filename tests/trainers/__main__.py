"""`python -m tests.trainers` runs the matrix of trainers and prints stepwatch's marks for each.

Run it with the Python of an environment that has the frameworks and stepwatch's wheel, which
`make test-trainers` creates.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import matrices
from tests.trainers.cells import HALVES, Cell, cells, half_of
from tests.trainers.report import document, table
from tests.trainers.run import CellResult
from tests.trainers.schedule import MatrixRequest, run_all
from tests.trainers.site import Site


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.trainers",
        description=__doc__,
        epilog="example: python -m tests.trainers --only nanogpt-lines --seconds 60",
    )
    names = [cell.name for cell in cells()]
    parser.add_argument("--only", action="append", choices=names, metavar="CELL")
    matrices.add_arguments(parser, HALVES)
    parser.add_argument("--seconds", type=float, default=150.0, help="of each healthy run")
    parser.add_argument(
        "--pairs", type=int, default=2, help="of runs with and without stepwatch; 0: none"
    )
    parser.add_argument("--no-faults", action="store_true", help="healthy runs only")
    parser.add_argument(
        "--record", action="store_true", help="the second table only: metrics, saves, resumes"
    )
    parser.add_argument(
        "--jobs", type=positive, default=3, help="cells at a time, but for the pairs"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cells")
    return parser.parse_args(words)


def positive(text: str) -> int:
    """Parse a positive count.

    Raises:
        ValueError: it is not positive.
    """
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def choose_cells(options: argparse.Namespace) -> list[Cell]:
    """The cells asked for."""
    return [
        cell
        for cell in cells()
        if (not options.only or cell.name in options.only)
        and options.half in ("all", half_of(cell))
    ]


def main(words: Sequence[str]) -> int:
    """Run; returns 1 if a cell is wrong, broken or missing."""
    options = arguments(words)
    if options.list:
        print("\n".join(cell.name for cell in cells()))
        return 0
    with matrices.folders("trainers", options.keep) as (folder, rings):
        results, complete = run_in(folder, rings, options)
    matrices.show(table(results), document(results, options.jobs), options.json)
    return 0 if complete and all(result.right for result in results) else 1


def run_in(folder: Path, rings: Path, options: argparse.Namespace) -> tuple[list[CellResult], bool]:
    """Run the request in these folders; return the results, and whether they are complete."""
    site = Site(folder, rings)
    pairs, seconds = (0, 0.0) if options.record else (options.pairs, options.seconds)
    cells, faults = choose_cells(options), not options.no_faults
    request = MatrixRequest(cells, pairs, seconds, faults, options.jobs)
    try:
        site.start()
        return run_all(request, site)
    finally:
        site.close()


if __name__ == "__main__":
    sys.exit(matrices.command("trainers", main))
