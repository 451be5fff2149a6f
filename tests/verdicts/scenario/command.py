"""The command that replays scenarios and measures how right the verdicts are."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import matrices

from . import results, seeds
from .outcome import Wanted, run
from .plan import FaultKind
from .progress import Progress
from .scored import summary
from .scored.picture import picture

DAY_SECONDS = 86_400.0
LONG_EVERY = 5
"""Seconds between the evaluations of a long healthy job."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verdicts",
        description="Replays scenarios drawn by seed and prints how right the verdicts were. "
        "With --matrix it makes the real runs of fixed cases instead, with --real N those of "
        "scenarios; see --matrix host --help and --real 1 --help.",
        epilog="example: python -m tests.verdicts --tune --seeds 40 --kind slow-compute; "
        "a report over several evenings: --seeds 1000 --to faults.jsonl, --days 200 --to "
        "healthy.jsonl, each as often as it takes, then --report faults.jsonl healthy.jsonl",
    )
    parser.add_argument("--seeds", type=int, default=60, help="how many scenarios (60)")
    parser.add_argument("--seed", type=int, action="append", help="only these")
    parser.add_argument(
        "--days", type=float, help="instead: healthy jobs of up to 8 h, so many job-days"
    )
    parser.add_argument("--tune", action="store_true", help="seeds to tune on, not to report")
    parser.add_argument("--kind", choices=[kind.value for kind in FaultKind])
    parser.add_argument("--healthy", action="store_true", help="no faults")
    parser.add_argument(
        "--every",
        type=int,
        metavar="SECONDS",
        help=f"between evaluations (1; {LONG_EVERY} with --days)",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (all processors)"
    )
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="add each result to this file, and go on there"
    )
    parser.add_argument(
        "--report", type=Path, nargs="+", metavar="FILE", help="run nothing: what is in these"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw what was found")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args(words)


def pending_scenarios(
    options: argparse.Namespace, documents: Sequence[dict[str, Any]]
) -> Iterator[Wanted]:
    """Yield the selected scenarios that have no result yet."""
    long = options.days is not None
    every = options.every or (LONG_EVERY if long else 1)
    seeds_done = {document["seed"] for document in documents}
    for seed in _seeds(options, len(seeds_done)):
        if seed not in seeds_done:
            yield Wanted(seed, options.kind or "", options.healthy, long, every)


def _seeds(options: argparse.Namespace, count: int) -> Iterable[int]:
    if options.seed:
        return list(options.seed)
    most = _MOST_LONG if options.days is not None else options.seeds
    if options.tune:
        return seeds.tuning_seeds(most)
    return (seeds.report_seed() for _ in range(count, most))


_MOST_LONG = 100_000


def take_days(wanted: Iterable[Wanted], days: float) -> Iterator[Wanted]:
    """Yield scenarios until they hold the given job-days."""
    total = 0.0
    for scenario in wanted:
        if total >= days:
            return
        total += scenario.scenario().seconds / DAY_SECONDS
        yield scenario


def run_all(chosen: Sequence[Wanted], jobs: int) -> Iterator[dict[str, Any]]:
    """Run the scenarios, several at a time, and yield their results as they end."""
    if min(jobs, len(chosen)) <= 1:
        yield from map(run, chosen)
        return
    with multiprocessing.Pool(min(jobs, len(chosen)), ignore_interrupts) as pool:
        yield from pool.imap_unordered(run, chosen)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker; its parent process ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(words: Sequence[str]) -> int:
    """Run; Ctrl-C ends the loop and keeps the finished results. Return 0: a table does not fail."""
    options = arguments(words)
    documents = results.read(options.report or ([options.to] if options.to else []))
    if any("answers" not in document for document in documents):
        print("of real runs: `--real COUNT --to FILE` reports what FILE holds", file=sys.stderr)
        return 2
    if not options.report:
        try:
            for result in replay_pending(options, documents):
                documents.append(result)
                print(summary.line(result), flush=True)
        except KeyboardInterrupt:
            print(matrices.INTERRUPTED, file=sys.stderr)
    print(f"\n{summary.table(documents)}")
    if options.picture is not None:
        options.picture.write_text(picture(documents))
    if options.json is not None:
        document = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "figures": summary.figures(documents),
            "scenarios": documents,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def replay_pending(
    options: argparse.Namespace, documents: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Run the pending scenarios, and add each result to the file."""
    wanted, code = pending_scenarios(options, documents), results.code_version()
    if options.days is None:
        chosen = list(wanted)
        progress = Progress(len(documents), len(documents) + len(chosen), "scenarios")
    else:
        initial_days = sum(document["seconds"] for document in documents) / DAY_SECONDS
        chosen = list(take_days(wanted, options.days - initial_days))
        progress = Progress(initial_days, options.days, "job-days")
    for document in run_all(chosen, options.jobs):
        document["code"] = code
        if options.to is not None:
            results.append(options.to, document)
        yield document
        progress.more(1 if options.days is None else document["seconds"] / DAY_SECONDS)
