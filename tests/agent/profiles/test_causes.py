"""`stepwatch profile` names the cause of a slow rank: five causes, real ranks over Gloo."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwatch.signals import places
from stepwatch.signals.blackbox import RingReader, find_rings
from tests.ports import free_port
from tests.ranks.child import environment_of
from tests.waiting import until

PROGRAM = Path(__file__).with_name("slow_rank.py")
STEPPED = 5
CAUSES = {
    "operator": r"aten::mm \d.*x, \d+ % of the excess, in .*MLP_2 \(slow_rank.py:\d+ \w+\)",
    "operators": r"the same operators, each \d\.\dx: the processor",
    "collection": r"garbage collection takes .* ms a step \(peer .*",
    "loader": r"DataLoader.__next__ takes .* ms a step \(peer .*",
    "lock": r"slow_rank.py:\d+ read_shared_state takes .* \(waits: a lock, I/O or sleep\)",
}


@contextmanager
def running(cause: str, folder: Path, *, apart: bool = False) -> Iterator[tuple[Path, Path]]:
    """Run two ranks for the time of the block; yield the ring directory of each."""
    rings = folder / "rings", folder / ("rings-1" if apart else "rings")
    end, port = folder / "end", free_port()
    ranks = list[subprocess.Popen[bytes]]()
    for rank in range(2):
        environ = {**os.environ, **environment_of(rank, 2, port), "OMP_NUM_THREADS": "1"}
        with (folder / f"rank{rank}.log").open("w") as log:
            started = subprocess.Popen(
                [sys.executable, str(PROGRAM), cause, str(end)],
                env={**environ, places.ENV_RING_DIR: str(rings[rank])},
                stderr=log,
            )
        ranks.append(started)
    try:
        until("steps of both ranks", lambda: _steps({*rings}) >= STEPPED)
        yield rings
        end.touch()
        codes = [started.wait(60) for started in ranks]
        assert codes == [0, 0], [(folder / f"rank{rank}.log").read_text() for rank in range(2)]
    finally:
        for started in ranks:
            started.kill()
            started.wait()


def _steps(roots: set[Path]) -> int:
    """Return the step of the rank that is behind; 0 before both have rings."""
    steps = []
    for path in [path for root in roots if root.exists() for path in find_rings(root)]:
        reader = RingReader(path)
        steps.append(reader.live().step)
        reader.close()
    return min(steps) if len(steps) == 2 else 0


def profiled(rings: Path, *words: str) -> tuple[int, Any]:
    """Run `stepwatch profile`; return its exit code and its JSON."""
    command = [sys.executable, "-m", "stepwatch.cli", "profile", "profiled", *words, "--json"]
    environ = {**os.environ, places.ENV_RING_DIR: str(rings)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def check_cause(cause: str, folder: Path) -> None:
    with running(cause, folder) as (rings, _):
        code, document = profiled(rings, "--rank", "1", "--steps", "4", "--out", str(folder / "o"))
        assert code == 0, document
        assert re.fullmatch(CAUSES[cause], document["sentence"]), document["sentence"]
        assert (document["rank"], document["peer"]) == (1, 0)
        assert [Path(path).exists() for path in document["traces"]] == [True, True]
        # A second profile so soon is refused: profiled steps are slower.
        code, refusal = profiled(rings, "--rank", "1")
        assert code == 1
        assert "ask again in" in refusal["errors"]["1"]


def test_an_operator_in_one_module(tmp_path: Path) -> None:
    check_cause("operator", tmp_path)


@pytest.mark.long(
    "tests/agent/profiles/test_causes.py::test_an_operator_in_one_module",
    "tests/collector/analysis/profiles/test_comparison.py"
    "::test_a_wait_in_python_is_named_with_its_function",
)
@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause != "operator"])
def test_each_cause_is_named(cause: str, tmp_path: Path) -> None:
    check_cause(cause, tmp_path)
