"""Both cores record the same facts and the same bytes, whatever a trainer calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepwatch.hooks.core import choice

ROOT = Path(__file__).parents[3]
PHASES = ("data", "forward", "backward", "optimizer", "checkpoint", "eval", "other")


class Played:
    """A process that plays sequences on one core."""

    def __init__(self, core: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hooks.core.player"],
            env={**os.environ, choice.ENV_CORE: core},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._answer() == f"{core}\n"

    def play(self, line: str) -> Any:
        """Play a sequence; return what a reader of the ring sees."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return json.loads(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="module")
def cores() -> Iterator[tuple[Played, Played]]:
    """A process for each core."""
    if choice.load() is None and os.environ.get(choice.ENV_CORE) != choice.PYTHON:
        pytest.skip("no compiled core was built: `make core`")
    played = Played(choice.PYTHON), Played(choice.NATIVE)
    yield played
    for each in played:
        each.close()


def call(name: str, *arguments: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """A call of the player; an argument is a strategy or a value."""
    strategies = (a if isinstance(a, st.SearchStrategy) else st.just(a) for a in arguments)
    return st.tuples(st.just(name), *strategies)


NUMBERS = st.one_of(
    st.floats(-1e30, 1e30), st.sampled_from([1e38, 3.5e38, 1e300, "nan", "inf", 7, True, None, "x"])
)
BYTES = st.sampled_from([0, 1, 4096, 1 << 40, 1 << 62])
TOKENS = st.sampled_from([0, 4096, -1, 1 << 32, 1 << 70, True, 1.5, "x"])
STEPS = st.sampled_from([None, None, None, 0, 5, 41, 0xFFFFFFFF, -1, "x"])
BUCKET, GROUP, OP = st.integers(0, 8), st.integers(0, 3), st.integers(0, 7)
NAMES = st.sampled_from(["loss", "grad_norm", "metric", "other"])
ONCE = st.one_of(
    call("step", TOKENS, STEPS),
    call("phase", st.sampled_from([*PHASES, "no phase", 7, None, []])),
    call("leave", st.sampled_from([1, 1, 1, 1, 2, 9]), st.booleans()),
    call("collective", st.sampled_from(["all_reduce", "barrier", "no op", 3]), BYTES),
    call("again"),
    call("record", st.dictionaries(NAMES, NUMBERS), st.sampled_from([[], [], [], [1.0]])),
    call("timeline", "move_to_collective", BUCKET, st.integers(0, 9_999)),
    call("timeline", "enter_microbatch", BUCKET, st.integers(0, 70_000)),
    call("timeline", "enter_wait", GROUP, OP),
    call("timeline", st.sampled_from(["leave", "leave_wait"])),
    call("timeline", "arrive", st.integers(0, 1 << 32), OP, BYTES),
    call("timeline", "step_outside", st.integers(0, 9)),
    call("timeline", "depart", GROUP, OP, BYTES, st.integers(0, 999), st.integers(1_000, 2_000)),
    call("microbatches", st.sampled_from([1, 4, 70_000])),
    call("evaluation", st.sampled_from(["begins", "ends"])),
    call("marked", st.sampled_from(["mark", "back_to", "inside", "leave_collective"]), BUCKET),
    call("close"),
)
CALLS = st.recursive(
    ONCE,
    lambda inner: st.one_of(
        call("fsdp", BYTES, st.lists(inner, max_size=3), st.booleans(), st.booleans()),
        call("thread", st.lists(inner, max_size=3)),
        call("signal", inner),
        call("fork", st.lists(inner, max_size=3)),
    ),
    max_leaves=4,
)
A_STEP: list[tuple[Any, ...]] = [
    ("step", 4096, None),
    ("phase", "forward"),
    ("fsdp", 4096, [], False, True),
    ("leave", 1, False),
    ("record", {"loss": 1.0, "grad_norm": 2.0}, []),
    ("leave", 1, False),
]
SEQUENCES = st.fixed_dictionaries(
    {
        "ticks": st.lists(st.integers(0, 2_000_000), min_size=1, max_size=5),
        "handlers": st.dictionaries(st.integers(1, 60).map(str), ONCE, max_size=3),
        "calls": st.tuples(
            # The plain core does not mark the phases that are open when a device is found.
            st.sampled_from(
                [[], [("device", 0, 10_000)], [("device", 7, 500)], [("device", 0, 30)]]
            ),
            st.integers(0, 12).map(lambda steps: A_STEP * steps),
            st.lists(CALLS, min_size=1, max_size=25),
            st.integers(0, 2).map(lambda steps: A_STEP * steps),
        ).map(lambda parts: [call for part in parts for call in part]),
    }
)


@settings(max_examples=300, deadline=None)
@given(sequence=SEQUENCES)
@example(sequence={"ticks": [7], "handlers": {"9": ("close",)}, "calls": A_STEP * 3})
@example(sequence={"ticks": [7], "handlers": {"20": ("step", "x", 7)}, "calls": A_STEP * 3})
@example(sequence={"ticks": [7], "handlers": {}, "calls": A_STEP * 70})
@example(sequence={"ticks": [9_000], "handlers": {}, "calls": [("device", 0, 9_999), *A_STEP * 30]})
def test_every_sequence_of_calls_leaves_the_same_bytes(
    cores: tuple[Played, Played], sequence: dict[str, Any]
) -> None:
    line = json.dumps(sequence)
    plain, compiled = (core.play(line) for core in cores)
    for made, expected, seen in zip(
        [*sequence["calls"], "close"], plain["seen"], compiled["seen"], strict=True
    ):
        assert seen == expected, made
    assert compiled["slots"] == plain["slots"]
