"""Forked ranks end as those of a launcher do, and a hang ends, too."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ranks.forked import ForkedRanks

PROGRAM = """
import os, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, flush=True)
if sys.argv[1] == "fails" and rank == 1:
    sys.exit(3)
if sys.argv[1] != "ends":
    time.sleep(3600)
"""


@pytest.fixture
def ranks() -> Iterator[ForkedRanks]:
    new_ranks = ForkedRanks()
    yield new_ranks
    new_ranks.close()


def test_ranks_end_alone_with_one_that_failed_or_when_their_time_is_over(
    ranks: ForkedRanks, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environ = dict(os.environ)
    ended = ranks.run([str(program), "ends"], 2, tmp_path, environ)
    assert ended.codes == [0, 0] and "rank 0" in ended.output and "rank 1" in ended.output
    killed = -signal.SIGKILL
    assert ranks.run([str(program), "fails"], 2, tmp_path, environ).codes == [killed, 3]
    assert ranks.run([str(program), "hangs"], 2, tmp_path, environ, 1.0).codes == [killed, killed]
