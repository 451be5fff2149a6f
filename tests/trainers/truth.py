"""The ranks' own diaries of a run."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

Pauses = list[tuple[float, float]]
"""Evaluations or saves: when each began, on the clock of the steps, and its seconds."""


class RankTruth(NamedTuple):
    """One rank's diary.

    `losses` holds each step's microbatches, as hexadecimal floats; `ended` each step's end, in
    seconds of one clock; `ops` the collectives that each step calls; `step_bytes` the least number
    of bytes that they reduce per step (0: any).
    """

    rank: int
    losses: list[list[str]]
    tokens: list[int]
    ended: list[float]
    eval: Pauses
    save: Pauses
    forward_seconds: float
    data_seconds: float
    digest: str
    ops: list[str]
    step_bytes: int

    @property
    def steps(self) -> int:
        """Number of trained steps."""
        return len(self.ended)

    def seconds_between_steps(self, pauses: Pauses) -> float:
        """Seconds of `pauses` that a later step's record can hold: not those after the last."""
        return sum(seconds for began, seconds in pauses if began < self.ended[-1])

    def step_seconds(self, leave_out: int = 5) -> list[float]:
        """Lengths of steps after the first ones."""
        ends = self.ended[leave_out:]
        return [later - sooner for sooner, later in itertools.pairwise(ends)]


Truth = dict[int, RankTruth]


def read_truth(folder: Path) -> Truth:
    """All diaries of a run by rank; a rank that did not come to its end wrote none."""
    documents: list[dict[str, Any]] = [
        json.loads(file.read_text()) for file in folder.glob("rank-*.json")
    ]
    return {document["rank"]: RankTruth(**document) for document in documents}


def median_step(truth: Truth) -> float:
    """Seconds of the usual step."""
    return statistics.median(seconds for rank in truth.values() for seconds in rank.step_seconds())


def same_numbers(first: Truth, second: Truth) -> bool:
    """Return whether losses and final weights agree to the last bit on all ranks."""
    return first.keys() == second.keys() and all(
        first[rank].losses == second[rank].losses and first[rank].digest == second[rank].digest
        for rank in first
    )
