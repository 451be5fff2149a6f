"""`python -m tests.verdicts` measures how right verdicts are, on scenarios that a seed draws.

`--matrix` runs fixed cases on real processes instead, and `--real N` runs scenarios on them.
`--transient` replays faults that end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tests import matrices

from . import cases as host
from .cases import HALVES, Case
from .device import cases as device
from .real import command as real
from .report import document, line, table
from .run import Ran, run
from .scenario import command
from .site import Site
from .transient import command as transient

MATRICES = {"host": (host,), "device": (device,), "all": (host, device)}
"""Modules of cases by the place where the ranks compute: the host, or the simulated device."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verdicts", description="Real runs of fixed cases."
    )
    names = [name for matrix in MATRICES["all"] for name in (*matrix.FAULTY, *matrix.HEALTHY)]
    parser.add_argument("--matrix", choices=MATRICES, default="host")
    parser.add_argument("--only", action="append", choices=names, metavar="CASE")
    matrices.add_arguments(parser, HALVES)
    parser.add_argument("--seed", type=int, action="append", help="only these seeds")
    parser.add_argument("--limit", type=int, help="at most so many runs")
    return parser.parse_args(words)


def select_cases(options: argparse.Namespace) -> list[Case]:
    """Return the cases that the options select."""
    fitting = (
        case
        for matrix in MATRICES["all" if options.only else options.matrix]
        for case in matrix.cases()
        if (not options.only or case.name in options.only)
        and (options.half in ("all", case.half))
        and (not options.seed or case.seed in options.seed)
    )
    return list(islice(fitting, options.limit))


def run_all(wanted: Sequence[Case], folder: Path, rings: Path) -> list[Ran]:
    """Run the cases one after the other; Ctrl-C ends the loop and keeps the finished runs."""
    site, runs = Site(folder, rings), list[Ran]()
    try:
        site.start()
        for number, case in enumerate(wanted, start=1):
            print(f"{number}/{len(wanted)} {case.name} {case.seed}", end="  ", flush=True)
            runs.append(run(case, site))
            print(line(runs[-1]), flush=True)
            for earlier in runs[-2:-1]:
                site.forget(earlier.case.plan.job)
    except KeyboardInterrupt:
        print(matrices.INTERRUPTED, file=sys.stderr)
    finally:
        site.close()
    return runs


def main(words: Sequence[str]) -> int:
    """Replay scenarios, run some on real processes, or make the runs of a matrix."""
    if any(word.startswith(("--matrix", "--only")) for word in words):
        return main_of_matrix(words)
    if any(word == "--transient" for word in words):
        return transient.main(words)
    if any(word.startswith("--real") for word in words):
        return real.main(words)
    return command.main(words)


def main_of_matrix(words: Sequence[str]) -> int:
    """Run; return 1 if a run differs from its plan, else 0. The verdicts do not change the code."""
    options = arguments(words)
    wanted = select_cases(options)
    with matrices.folders("verdicts", options.keep) as (folder, rings):
        runs = run_all(wanted, folder, rings)
    matrices.show(table(runs), document(runs, options.half), options.json)
    return 1 if len(runs) < len(wanted) or any(ran.problem for ran in runs) else 0


if __name__ == "__main__":
    sys.exit(matrices.command("verdicts", main))
