"""`stepwatch profile --stacks`: sampled stacks of two ranks on this node, and their difference."""

from __future__ import annotations

import json
from typing import Any

from stepwatch.agent.profiles import sample_ranks
from stepwatch.agent.stalls.stack import find_py_spy
from stepwatch.cli import text
from stepwatch.collector.analysis.profiles import (
    StackDifference,
    compare_stacks,
    read_shares,
    stack_sentence,
)

from .local import Pair

SECONDS = 5.0
MOST_ROWS = 10
"""Most functions in a table, those with the largest difference."""


def difference_of(pair: Pair, seconds: float = SECONDS) -> tuple[StackDifference, dict[int, str]]:
    """Sample both ranks; return their difference, and by rank the reason why it has no stack."""
    slow, peer = pair.slow.identity.rank, pair.peer.identity.rank
    samples = {item.rank: item for item in sample_ranks(pair, find_py_spy(), seconds)}
    reasons = {rank: item.reason for rank, item in samples.items() if item.reason}
    shares = {rank: read_shares(item.text) for rank, item in samples.items()}
    return compare_stacks((slow, shares[slow]), (peer, shares[peer])), reasons


def print_difference(difference: StackDifference, *, as_json: bool) -> None:
    """Print the sentence and the functions with the largest differences."""
    said, rows = stack_sentence(difference), difference.rows[:MOST_ROWS]
    if as_json:
        document: dict[str, Any] = {
            "rank": difference.slow,
            "peer": difference.peer,
            "samples": difference.samples,
            "sentence": said,
            "rows": [row._asdict() for row in rows],
        }
        print(json.dumps(document, indent=1))
        return
    print(f"rank {difference.slow} beside rank {difference.peer}, {SECONDS:.0f} s: {said}")
    head = ["", f"rank {difference.slow}", f"rank {difference.peer}"]
    cells = [[row.function[:72], f"{row.share:.0%}", f"{row.peer_share:.0%}"] for row in rows]
    if cells:
        print(text.table(head, cells, left_columns=1))
