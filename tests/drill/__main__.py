"""`python -m tests.drill` holds every drill; `--only hang kill`, `--pairs`, `--healthy 60`."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .chain import Chain, Row
from .faults import PAIRS, SINGLE, Drill
from .scoreboard import document, table
from .servers import DrillError


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drill",
        description="Faults through the whole chain, from rank to pager, as a scoreboard.",
        epilog="example: python -m tests.drill --only slow-compute hang",
    )
    names = ", ".join(each.name for each in SINGLE)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {names}")
    parser.add_argument("--pairs", action="store_true", help="ten pairs of faults, too")
    parser.add_argument("--healthy", type=float, default=0.0, metavar="MINUTES", help="[0]")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and stores there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it for programs, too")
    return parser.parse_args(words)


def _chosen(arguments: argparse.Namespace) -> tuple[Drill, ...]:
    known = {each.name: each for each in (*SINGLE, *PAIRS)}
    if arguments.only:
        unknown = [name for name in arguments.only if name not in known]
        if unknown:
            raise DrillError(f"no drill is named {unknown[0]!r}; there are {', '.join(known)}")
        return tuple(known[name] for name in arguments.only)
    return (*SINGLE, *(PAIRS if arguments.pairs else ()))


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="stepwatch-drill-") as folder:
        yield Path(folder)


def main(words: list[str]) -> int:
    """Hold them; returns 1 if one is not as it should be, 2 if none can be held."""
    arguments = _arguments(words)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    rows: list[Row] = []
    healthy = 0
    try:
        drills = _chosen(arguments)
        with _folder(arguments.keep) as folder:
            chain = Chain(folder)
            try:
                chain.start()
                for number, drill in enumerate(drills, 1):
                    print(f"{number} of {len(drills)}: {drill.name}", file=sys.stderr, flush=True)
                    rows.append(chain.run(drill))
                if arguments.healthy:
                    healthy = chain.healthy(60.0 * arguments.healthy)
            finally:
                chain.close()
    except (DrillError, OSError) as error:
        print(f"drill: {error}", file=sys.stderr)
        return 2
    seconds = 60.0 * arguments.healthy
    print(table(rows, seconds, healthy))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document(rows, seconds, healthy), indent=1) + "\n")
    return int(bool(healthy) or any(row.problems for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
