"""The command that replays faults that end."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

from stepwatch.collector.quantities import json_value
from tests.verdicts.scenario.command import ignore_interrupts

from .cases import PLACES, cases
from .row import row_of
from .table import line, table


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verdicts --transient",
        description="Replays faults that end, and prints how soon they were named, how soon their "
        "incidents ended, how many notices were sent and which numbers were untrue.",
        epilog="example: python -m tests.verdicts --transient --place moving",
    )
    parser.add_argument("--transient", action="store_true", help="this command")
    parser.add_argument("--place", choices=PLACES, help="only these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the rows as data")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Run; return 0, because a table does not fail."""
    options = arguments(words)
    wanted = [case for case in cases() if options.place in (None, case.place)]
    rows = []
    with multiprocessing.Pool(min(options.jobs, len(wanted)), ignore_interrupts) as pool:
        for row in pool.imap(row_of, wanted):
            rows.append(row)
            print(line(row), flush=True)
    print(f"\n{table(rows)}")
    if options.json is not None:
        document = json_value([row._asdict() for row in rows])
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0
