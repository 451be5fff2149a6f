"""`python -m tests.verdicts` says how right verdicts are: of scenarios drawn by seed.

`--matrix` makes the real runs of fixed cases instead, `--real N` those of scenarios; `--transient`
says what becomes of faults that end.
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
"""Where the ranks compute: on the host, or on the simulated device, while the host runs ahead."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verdicts", description="Real runs of fixed cases."
    )
    known = [name for each in MATRICES["all"] for name in (*each.FAULTY, *each.HEALTHY)]
    parser.add_argument("--matrix", choices=MATRICES, default="host")
    parser.add_argument("--only", action="append", choices=known, metavar="CASE")
    matrices.add_arguments(parser, HALVES)
    parser.add_argument("--seed", type=int, action="append", help="only these seeds")
    parser.add_argument("--limit", type=int, help="at most so many runs")
    return parser.parse_args(words)


def chosen(asked: argparse.Namespace) -> list[Case]:
    """The cases asked for."""
    fitting = (
        case
        for each in MATRICES["all" if asked.only else asked.matrix]
        for case in each.cases()
        if (not asked.only or case.name in asked.only)
        and (asked.half in ("all", case.half))
        and (not asked.seed or case.seed in asked.seed)
    )
    return list(islice(fitting, asked.limit))


def run_all(wanted: Sequence[Case], folder: Path, rings: Path) -> list[Ran]:
    """Run the cases one after the other; Ctrl-C ends with those that are done."""
    site, done = Site(folder, rings), list[Ran]()
    try:
        site.start()
        for number, case in enumerate(wanted, start=1):
            print(f"{number}/{len(wanted)} {case.name} {case.seed}", end="  ", flush=True)
            done.append(run(case, site))
            print(line(done[-1]), flush=True)
            for earlier in done[-2:-1]:
                site.forget(earlier.case.plan.job)
    except KeyboardInterrupt:
        print(matrices.INTERRUPTED, file=sys.stderr)
    finally:
        site.close()
    return done


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
    """Run; returns 1 if a run was not what its plan describes, else 0: a table is no verdict."""
    asked = arguments(words)
    wanted = chosen(asked)
    with matrices.folders("verdicts", asked.keep) as (folder, rings):
        done = run_all(wanted, folder, rings)
    matrices.show(table(done), document(done, asked.half), asked.json)
    return 1 if len(done) < len(wanted) or any(ran.problem for ran in done) else 0


if __name__ == "__main__":
    sys.exit(matrices.command("verdicts", main))
