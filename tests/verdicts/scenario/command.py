"""The command that replays scenarios and prints how right the verdicts were."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tests import matrices

from . import seeds
from .outcome import Wanted, run
from .plan import FaultKind
from .scored import summary


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verdicts",
        description="Replays scenarios drawn by seed and prints how right the verdicts were. "
        "With --matrix it makes the real runs of fixed cases instead, with --real N those of "
        "scenarios; see --matrix host --help and --real 1 --help.",
        epilog="example: python -m tests.verdicts --tune --seeds 40 --kind slow-compute",
    )
    parser.add_argument("--seeds", type=int, default=60, help="how many scenarios (60)")
    parser.add_argument("--seed", type=int, action="append", help="only these")
    parser.add_argument("--tune", action="store_true", help="seeds to tune on, not to report")
    parser.add_argument("--day", type=date.fromisoformat, default=datetime.now(UTC).date())
    parser.add_argument("--kind", choices=[each.value for each in FaultKind])
    parser.add_argument("--healthy", action="store_true", help="no faults")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(words)


def wanted(asked: argparse.Namespace) -> list[Wanted]:
    """The scenarios asked for."""
    drawn = seeds.tuning_seeds(asked.seeds)
    if not asked.tune:
        drawn = seeds.report_seeds(asked.seeds, asked.day)
    return [Wanted(seed, asked.kind or "", asked.healthy) for seed in asked.seed or drawn]


def run_all(chosen: Sequence[Wanted], jobs: int) -> Iterator[dict[str, Any]]:
    """Run them, several at a time, in their order."""
    if jobs == 1:
        yield from map(run, chosen)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, chosen)


def main(words: Sequence[str]) -> int:
    """Run; Ctrl-C ends with those that are done. A table is no verdict: returns 0."""
    asked = arguments(words)
    done: list[dict[str, Any]] = []
    try:
        for one in run_all(wanted(asked), asked.jobs):
            done.append(one)
            print(summary.line(one), flush=True)
    except KeyboardInterrupt:
        print(matrices.INTERRUPTED, file=sys.stderr)
    print(f"\n{summary.table(done)}")
    if asked.json is not None:
        document = {
            "date": f"{asked.day:%Y-%m-%d}",
            "tuning": asked.tune,
            "figures": summary.figures(done),
            "scenarios": done,
        }
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0
