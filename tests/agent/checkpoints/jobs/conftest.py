"""A node's checkpoints: reported as ranks do it, verified by the agent's own thread and process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from stepwatch.agent.checkpoints.jobs import CheckpointOptions, JobCheckpoints
from stepwatch.agent.keys import AttemptKey
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import (
    DTYPES,
    Kind,
    LifecycleEvent,
    Verification,
    piece_texts,
    text_bytes,
)
from stepwatch.signals.wire import Rows
from tests.waiting import until

KEY = AttemptKey("llama", 0)
QUICK = {
    "rate": 1e9,
    "delay_seconds": 0.0,
    "pause_seconds": 0.0,
    "settle_seconds": 0.2,
    "timeout_seconds": 60.0,
}


class Result(NamedTuple):
    """A VERIFICATION row."""

    step: int
    state: Verification
    file: str
    reason: str
    again: bool


def path_rows(path: Path | str, step: int, rank: int = 0) -> Rows:
    """CHECKPOINT_PATH records of one path."""
    texts = piece_texts((str(path), ""))
    rows = np.zeros(len(texts), dtype=DTYPES[Kind.LIFECYCLE])
    rows["rank"], rows["step"] = rank, step
    rows["event"], rows["value"] = LifecycleEvent.CHECKPOINT_PATH, range(len(texts))
    rows["text"] = [text_bytes(text, 56) for text in texts]
    return rows


class Node:
    """The verifier with what it reported so far."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.checkpoints = JobCheckpoints(
            folder, CheckpointOptions(**{**QUICK, **options}), SystemClock()
        )
        self.results: list[Result] = []
        self.rows: list[Rows] = []

    def report(self, path: Path | str, step: int, rank: int = 0) -> None:
        """A rank reports a finished save."""
        self.checkpoints.follow(KEY, [], {Kind.LIFECYCLE: path_rows(path, step, rank)})

    def wait(self, count: int = 1, *, states: tuple[Verification, ...] = ()) -> list[Result]:
        """Return the results, without those that only say that a file was not read yet."""

        def has_enough() -> bool:
            for rows in self.checkpoints.collect().values():
                self.rows.append(rows)
                self.results += [result_of(row) for row in rows]
            return len(self._read(states)) >= count

        until(f"{count} results, after {self.results}", has_enough)
        return self._read(states)

    def _read(self, states: tuple[Verification, ...]) -> list[Result]:
        read = [result for result in self.results if result.state is not Verification.WAITING]
        return [result for result in read if not states or result.state in states]

    def stop(self) -> None:
        """End the thread."""
        self.checkpoints.stop()
        assert self.checkpoints.thread.join(20.0)


def result_of(row: np.void) -> Result:
    """Return a row's values."""
    texts = (bytes(row[name]).decode() for name in ("file", "reason"))
    file, reason = texts
    return Result(
        int(row["step"]), Verification(int(row["state"])), file, reason, bool(row["again"])
    )


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Builds verifiers over `tmp_path/register`."""
    nodes: list[Node] = []

    def make(**options: Any) -> Node:
        nodes.append(Node(tmp_path / "register", **options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.stop()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A verifier that reads at once."""
    return make_node()
