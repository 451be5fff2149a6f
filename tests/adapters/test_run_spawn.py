"""`stepwatch run` over a script that starts its ranks with multiprocessing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.ports import free_port

from .conftest import RUN, SCRIPTS, Launch

LONG = pytest.mark.long(
    "tests/adapters/test_run_spawn.py::test_ranks_that_multiprocessing_starts_are_recorded_as_what_they_are",
)


@pytest.mark.parametrize("method", ["spawn", pytest.param("fork", marks=LONG)])
def test_ranks_that_multiprocessing_starts_are_recorded_as_what_they_are(
    launch: Launch, rings: Path, method: str
) -> None:
    pytest.importorskip("torch", reason="the program trains with torch")
    script = str(SCRIPTS / "spawn.py")
    ended = launch(*RUN, "--", "python", script, str(free_port()), method)
    assert "the last rank is unhappy" in ended.stderr and "no step" not in ended.stderr
    recordings = {}
    for path in find_rings(rings):
        reader = RingReader(path)
        rows = reader.read().rows
        end = rows[Kind.LIFECYCLE][-1]
        recordings[str(path.relative_to(rings))] = (
            reader.identity.world, rows[Kind.STEP]["step"].tolist(),
            reader.closed and LifecycleEvent(int(end["event"])).name, reader.hook_errors,
        )  # fmt: skip
        reader.close()
    steps = [0, 1, 2]
    assert recordings == {
        "spawn/0/0": (2, steps, "FINISH", 0),
        "spawn/0/1": (2, steps, "FAILURE", 0),
    }
