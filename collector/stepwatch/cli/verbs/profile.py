"""`stepwatch profile`: why is this rank slower than its peer, operator by operator?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwatch.cli import terminal, text
from stepwatch.cli.response.words import add_by_argument
from stepwatch.cli.source import COLLECTOR_HELP, SourceError, add_access_arguments
from stepwatch.signals import places
from stepwatch.signals.arguments import positive_seconds
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import file_problem
from stepwatch.signals.profiles import MOST_STEPS

if TYPE_CHECKING:
    from stepwatch.cli.profiles.local import Pair

EXAMPLE = "stepwatch profile llama-7b --rank 5 --steps 3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", help="a running job")
    parser.add_argument("--rank", type=int, required=True, help="the slow rank")
    parser.add_argument(
        "--peer", type=int, help="a healthy rank to compare with [the nearest in the same stage]"
    )
    parser.add_argument(
        "--steps", type=int, default=3, help=f"steps to profile, 1 to {MOST_STEPS} [3]"
    )
    parser.add_argument(
        "--stacks",
        action="store_true",
        help="sample Python stacks from outside instead, on this node: without hooks or torch",
    )
    parser.add_argument(
        "--timeout",
        type=positive_seconds,
        default=120.0,
        metavar="SECONDS",
        help="give up after this time [120]",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep both traces there, for Perfetto"
    )
    parser.add_argument(
        "--collector",
        default=places.collector_url(),
        metavar="URL",
        help=f"asked if a rank runs elsewhere, or if it is another one: {COLLECTOR_HELP}",
    )
    add_access_arguments(parser)
    add_by_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Profile two ranks, print the comparison; exit 1 if a rank made no trace.

    Raises:
        UsageError: a rank does not run on this node and no collector is known, or the traces cannot
            be kept.
        SourceError: the collector does not answer or refuses.
    """
    if not 1 <= arguments.steps <= MOST_STEPS:
        raise UsageError(f"--steps is 1 to {MOST_STEPS}")
    if arguments.stacks:
        return _run_stacks(arguments)
    if arguments.collector != places.collector_url():
        return _run_remote(arguments)
    from stepwatch.cli.profiles.local import choose, ranks_of

    try:
        pair = choose(ranks_of(arguments.job), arguments.rank, arguments.peer)
    except UsageError as missing:
        try:
            return _run_remote(arguments)
        except SourceError as error:
            raise SourceError(f"{missing}; and through the collector: {error}") from error
    return _run_local(arguments, pair)


def _run_stacks(arguments: argparse.Namespace) -> int:
    from stepwatch.cli.profiles.local import choose, ranks_of
    from stepwatch.cli.profiles.stacks import difference_of, print_difference

    pair = choose(ranks_of(arguments.job), arguments.rank, arguments.peer)
    slow, peer = pair.slow.identity.rank, pair.peer.identity.rank
    with _progress(arguments, f"sampling stacks of ranks {slow} and {peer}"):
        difference, reasons = difference_of(pair)
    if reasons:
        return _report_failures(arguments, slow, peer, reasons)
    print_difference(difference, as_json=arguments.json)
    return 0


def _run_local(arguments: argparse.Namespace, pair: Pair) -> int:
    from stepwatch.cli.profiles.local import profile_pair
    from stepwatch.collector.analysis.profiles import (
        compare,
        comparison_document,
        read_profile,
        sentence,
    )

    slow, peer = pair.slow.identity.rank, pair.peer.identity.rank
    with _progress(arguments, f"profiling {arguments.steps} steps of ranks {slow} and {peer}"):
        outcomes = profile_pair(arguments.job, pair, arguments.steps, arguments.timeout)
    traces = {outcome.rank: outcome.trace for outcome in outcomes}
    reasons = {outcome.rank: outcome.reason for outcome in outcomes if outcome.reason}
    if reasons or len(traces) < len(pair):
        hint = "; --stacks samples both ranks from outside"
        hinted = {rank: reason + hint for rank, reason in reasons.items()}
        return _report_failures(arguments, slow, peer, hinted)
    profiles = []
    for rank in (slow, peer):
        try:
            profiles.append(read_profile(traces[rank]))
        except ValueError as error:
            return _report_failures(
                arguments, slow, peer, {rank: f"its trace cannot be read: {error}"}
            )
    comparison = compare(*profiles)
    document = comparison_document(profiles[0], comparison)
    return _report(arguments, document, sentence(comparison), traces)


def _run_remote(arguments: argparse.Namespace) -> int:
    from stepwatch.cli.profiles.remote import fetch_trace, profile_remote

    arguments.store = None
    with _progress(arguments, f"profiling rank {arguments.rank} through the collector"):
        profile = profile_remote(arguments)
    if profile["comparison"] is None:
        answers = {trace["rank"]: trace["reason"] for trace in profile["traces"] if trace["reason"]}
        reasons = answers or {arguments.rank: profile["sentence"]}
        return _report_failures(arguments, arguments.rank, profile["peer"], reasons)
    ranks = () if arguments.out is None else (profile["rank"], profile["peer"])
    traces = {rank: fetch_trace(arguments, profile["id"], rank) for rank in ranks}
    return _report(arguments, profile["comparison"], profile["sentence"], traces)


@contextmanager
def _progress(arguments: argparse.Namespace, words: str) -> Iterator[None]:
    """Show `words` on a terminal for the time of the block."""
    is_drawn = terminal.is_redrawn() and not arguments.json
    if is_drawn:
        terminal.redraw(words)
    try:
        yield
    finally:
        if is_drawn:
            terminal.redraw("")


def _report(
    arguments: argparse.Namespace,
    comparison: dict[str, Any],
    said: str,
    traces: Mapping[int, bytes],
) -> int:
    paths = [] if arguments.out is None else _keep(arguments.out, arguments.job, traces)
    if arguments.json:
        document = {**comparison, "sentence": said, "traces": [str(path) for path in paths]}
        print(json.dumps(document, indent=1))
        return 0
    first = comparison["first_step"]
    print(
        f"rank {comparison['rank']} beside rank {comparison['peer']}, steps {first} to "
        f"{first + comparison['steps'] - 1}, {_ms(comparison['step_seconds'])} each: {said}"
    )
    if comparison["rows"]:
        print(_table(comparison))
    for path in paths:
        print(f"kept {path}: open it at https://ui.perfetto.dev")
    return 0


def _table(comparison: dict[str, Any]) -> str:
    head = ["", f"rank {comparison['rank']}", f"rank {comparison['peer']}", "excess", "where"]
    rows = [
        [
            row["name"][:48],
            _ms(row["seconds"]),
            _ms(row["peer_seconds"]),
            _ms(row["seconds"] - row["peer_seconds"]),
            row["modules"] or row["code"],
        ]
        for row in comparison["rows"]
    ]
    return text.table(head, rows, left_columns=1)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _report_failures(
    arguments: argparse.Namespace, rank: int, peer: int, reasons: Mapping[int, str]
) -> int:
    if arguments.json:
        print(json.dumps({"rank": rank, "peer": peer, "errors": reasons}, indent=1))
    else:
        for number, reason in reasons.items():
            print(f"no profile of rank {number}: {reason}")
    return 1


def _keep(folder: Path, job: str, traces: Mapping[int, bytes]) -> list[Path]:
    """Write both traces; return their paths.

    Raises:
        UsageError: the folder cannot be written.
    """
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank, trace in traces.items():
            path = folder / f"{job.replace('/', '_')}-rank{rank}.json.gz"
            write_durably(path, trace)
            paths.append(path)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {file_problem(error)}") from error
    return paths
