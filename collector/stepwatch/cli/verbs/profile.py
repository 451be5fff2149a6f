"""`stepwatch profile`: why is this rank slower than its peer, operator by operator?"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwatch.cli import terminal, text
from stepwatch.signals.arguments import positive_seconds
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import file_problem

if TYPE_CHECKING:
    from stepwatch.agent.profiles import Outcome
    from stepwatch.collector.analysis.profiles import Comparison

EXAMPLE = "stepwatch profile llama-7b --rank 5 --steps 3"
MOST_STEPS = 10
MOST_ROWS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("job", help="a job with ranks on this node")
    parser.add_argument("--rank", type=int, required=True, help="the slow rank")
    parser.add_argument(
        "--peer", type=int, help="a healthy rank on this node [the nearest in the same stage]"
    )
    parser.add_argument(
        "--steps", type=int, default=3, help=f"steps to profile, 1 to {MOST_STEPS} [3]"
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
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Profile two ranks, print the comparison; exit 1 if a rank made no trace.

    Raises:
        UsageError: a rank does not run on this node, or the traces cannot be kept.
    """
    from stepwatch.cli.profiles.local import choose, profile_pair, ranks_of

    if not 1 <= arguments.steps <= MOST_STEPS:
        raise UsageError(f"--steps is 1 to {MOST_STEPS}")
    pair = choose(ranks_of(arguments.job), arguments.rank, arguments.peer)
    numbers = (pair.slow.identity.rank, pair.peer.identity.rank)
    is_drawn = terminal.is_redrawn() and not arguments.json
    if is_drawn:
        terminal.redraw(f"profiling {arguments.steps} steps of ranks {numbers[0]} and {numbers[1]}")
    try:
        outcomes = profile_pair(arguments.job, pair, arguments.steps, arguments.timeout)
    finally:
        if is_drawn:
            terminal.redraw("")
    by_rank = {outcome.rank: outcome for outcome in outcomes}
    failed = [outcome for outcome in outcomes if outcome.reason]
    if failed or len(by_rank) < len(numbers):
        return _report_failures(failed, numbers, as_json=arguments.json)
    paths = _keep(arguments.out, arguments.job, outcomes) if arguments.out is not None else []
    return _report(by_rank[numbers[0]], by_rank[numbers[1]], paths, as_json=arguments.json)


def _report(slow: Outcome, peer: Outcome, paths: list[Path], *, as_json: bool) -> int:
    from stepwatch.collector.analysis.profiles import compare, read_profile, sentence

    profiles = []
    for outcome in (slow, peer):
        try:
            profiles.append(read_profile(outcome.trace))
        except ValueError as error:
            unreadable = outcome._replace(reason=f"its trace cannot be read: {error}")
            return _report_failures([unreadable], (slow.rank, peer.rank), as_json=as_json)
    comparison = compare(*profiles)
    said = sentence(comparison)
    if as_json:
        document = {**comparison_document(comparison), "sentence": said}
        print(json.dumps({**document, "traces": [str(path) for path in paths]}, indent=1))
        return 0
    first, steps = profiles[0].first_step, profiles[0].steps
    print(
        f"rank {slow.rank} beside rank {peer.rank}, steps {first} to {first + steps - 1}, "
        f"{_ms(profiles[0].step_s)} each: {said}"
    )
    if comparison.rows:
        print(_table(comparison))
    for path in paths:
        print(f"kept {path}: open it at https://ui.perfetto.dev")
    return 0


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as a JSON object; times are seconds a step, unknown numbers null."""
    return {
        "rank": comparison.slow,
        "peer": comparison.peer,
        "pattern": comparison.pattern.value,
        "excess_seconds": comparison.excess_s,
        "on_device": comparison.on_device,
        "waits": comparison.waits,
        "rows": [
            {
                "kind": row.activity.kind.value,
                "name": row.activity.name,
                "modules": row.activity.place,
                "code": row.activity.code,
                "seconds": row.slow_s,
                "peer_seconds": row.peer_s,
            }
            for row in comparison.rows[:MOST_ROWS]
        ],
    }


def _table(comparison: Comparison) -> str:
    head = ["", f"rank {comparison.slow}", f"rank {comparison.peer}", "excess", "where"]
    rows = [
        [
            row.activity.name[:48],
            _ms(row.slow_s),
            _ms(row.peer_s),
            _ms(row.seconds),
            row.activity.place or row.activity.code,
        ]
        for row in comparison.rows[:MOST_ROWS]
    ]
    return text.table(head, rows, left_columns=1)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _report_failures(failed: list[Outcome], ranks: tuple[int, int], *, as_json: bool) -> int:
    reasons = {outcome.rank: outcome.reason for outcome in failed}
    if as_json:
        print(json.dumps({"rank": ranks[0], "peer": ranks[1], "errors": reasons}, indent=1))
    else:
        for rank, reason in reasons.items():
            print(f"no profile of rank {rank}: {reason}")
    return 1


def _keep(folder: Path, job: str, outcomes: list[Outcome]) -> list[Path]:
    """Write both traces; return their paths.

    Raises:
        UsageError: the folder cannot be written.
    """
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for outcome in outcomes:
            path = folder / f"{job.replace('/', '_')}-rank{outcome.rank}.json.gz"
            write_durably(path, outcome.trace)
            paths.append(path)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {file_problem(error)}") from error
    return paths
