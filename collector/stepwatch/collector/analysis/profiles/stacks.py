"""The difference of two ranks' sampled stacks: which function takes more of the slow rank's time.

main;train (train.py:9);read (train.py:3) 30    the slow rank: read takes 30 of 40 samples,
main;train (train.py:9);step (train.py:5) 10    the peer: 2 of 40; so read is 0.70 above it
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

_FRAME = re.compile(r"(?P<name>.*) \((?P<file>.*):(?P<line>\d+)\)")
_MAIN = re.compile(r"thread \([^)]*\): MainThread")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "stepwatch/hooks/", "<frozen")


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a difference of sampled stacks; they open no incident."""

    least_samples: int = 50
    """Samples: the fewest of a rank. A second at the sampling rate, several steps as a rule."""
    least_share: float = 0.05
    """Share: the smallest difference of a function. Stragglers below 5 % open no incident."""
    deviations: float = 3.0
    """Standard deviations: a difference below them is chance."""


LIMITS = Thresholds()


class Shares(NamedTuple):
    """A rank's samples of its main thread, by the innermost function of the user."""

    samples: int
    functions: Counter[str]

    def share(self, function: str) -> float:
        """Return the share of samples in a function."""
        return self.functions[function] / self.samples if self.samples else math.nan


class FunctionRow(NamedTuple):
    """A function's shares of the slow rank's and of the peer's samples."""

    function: str
    share: float
    peer_share: float


class StackDifference(NamedTuple):
    """Functions by falling difference of their shares, and those that chance does not explain."""

    slow: int
    peer: int
    samples: tuple[int, int]
    rows: tuple[FunctionRow, ...]
    clear: tuple[FunctionRow, ...]


def read_shares(text: str) -> Shares:
    """Return the shares in py-spy's raw output; lines of another form are left out."""
    functions = Counter[str]()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if frames and count.isascii() and count.isdigit() and _MAIN.fullmatch(thread):
            functions[_function(frames)] += int(count)
    return Shares(functions.total(), functions)


def compare_stacks(
    slow: tuple[int, Shares], peer: tuple[int, Shares], limits: Thresholds = LIMITS
) -> StackDifference:
    """Compare two ranks, each given with its number."""
    (rank, shares), (peer_rank, peer_shares) = slow, peer
    names = {*shares.functions, *peer_shares.functions}
    rows = [FunctionRow(name, shares.share(name), peer_shares.share(name)) for name in names]
    rows.sort(key=lambda row: (row.peer_share - row.share, row.function))
    samples = shares.samples, peer_shares.samples
    clear = [row for row in rows if _is_clear(row, samples, limits)]
    return StackDifference(rank, peer_rank, samples, tuple(rows), tuple(clear))


def stack_sentence(difference: StackDifference, limits: Thresholds = LIMITS) -> str:
    """Return what the difference shows in one line."""
    if min(difference.samples) < limits.least_samples:
        return f"too few samples: {difference.samples[0]} and {difference.samples[1]}"
    if not difference.clear:
        return f"no function takes more of rank {difference.slow} than of rank {difference.peer}"
    first = difference.clear[0]
    return (
        f"{first.function} holds {first.share:.0%} of rank {difference.slow}'s time "
        f"(peer {first.peer_share:.0%})"
    )


def _is_clear(row: FunctionRow, samples: tuple[int, int], limits: Thresholds) -> bool:
    if min(samples) < limits.least_samples:
        return False
    parts = zip((row.share, row.peer_share), samples, strict=True)
    deviation = math.sqrt(sum(share * (1 - share) / count for share, count in parts))
    return row.share - row.peer_share > max(limits.least_share, limits.deviations * deviation)


def _function(frames: Collection[str]) -> str:
    """Return the innermost function of the user, else the innermost one, as `name (file:line)`."""
    innermost = ""
    for frame in reversed([*frames]):
        match = _FRAME.fullmatch(frame)
        if match is None:
            continue
        file = match["file"]
        name = f"{match['name']} ({file.rpartition('/')[2]}:{match['line']})"
        if not any(part in file for part in _LIBRARIES):
            return name
        innermost = innermost or name
    return innermost or [*frames][-1]
