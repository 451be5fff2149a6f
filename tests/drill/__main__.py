"""`python -m tests.drill` runs every drill; `--only hang kill`, `--healthy 60`, `--json FILE`."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .chain.servers import DrillError
from .chain_checks import CHECKS
from .faults import PAIRS, SINGLE
from .report import facts
from .run import Choice, run_all
from .scoreboard import document, table


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drill",
        description="Faults through the whole chain, from rank to pager, as a scoreboard.",
        epilog="example: python -m tests.drill --only slow-compute hang",
    )
    names = ", ".join((*(drill.name for drill in SINGLE), *CHECKS))
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {names}, or a pair")
    parser.add_argument("--no-pairs", action="store_true", help="leave out pairs of faults")
    parser.add_argument("--healthy", type=float, default=0.0, metavar="MINUTES",
                        help="train without a fault; of drills only those of --only")  # fmt: skip
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and stores there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it for programs, too")
    return parser.parse_args(words)


def _choose(arguments: argparse.Namespace) -> Choice:
    drills_by_name = {drill.name: drill for drill in (*SINGLE, *PAIRS)}
    minutes = arguments.healthy
    if arguments.only or minutes:
        names = arguments.only or []
        unknown = [name for name in names if name not in drills_by_name and name not in CHECKS]
        if unknown:
            raise DrillError(
                f"no drill is named {unknown[0]!r}; there are {', '.join(drills_by_name)}"
            )
        drills = tuple(drills_by_name[name] for name in names if name in drills_by_name)
        return Choice(drills, tuple(name for name in names if name in CHECKS), 60.0 * minutes)
    pairs = () if arguments.no_pairs else PAIRS
    return Choice((*SINGLE, *pairs), tuple(CHECKS), 0.0)


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="stepwatch-drill-") as folder:
        yield Path(folder)


def main(words: list[str]) -> int:
    """Run the drills; return 1 if one has a problem, 2 if none can run."""
    arguments = _arguments(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Python installs no handler where a shell ignores the signal, as shells do for background
        # jobs.
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    try:
        chosen = _choose(arguments)
        with _folder(arguments.keep) as folder:
            board, was_stopped = run_all(folder, chosen)
    except (DrillError, OSError) as error:
        print(f"drill: {error}", file=sys.stderr)
        return 2
    board = board._replace(seconds=time.monotonic() - began)
    print(table(board))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({**facts(), **document(board)}, indent=1) + "\n")
    return int(was_stopped or board.fails)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
