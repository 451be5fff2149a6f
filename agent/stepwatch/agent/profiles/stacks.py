"""Samples the Python stacks of ranks from outside with py-spy: the rank need not cooperate."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.rings.processes import is_process_of
from stepwatch.agent.stalls.stack import FOREIGN, MISSING, failure_of

from .asking import RankServer

RATE = 50
"""Samples a second: a stack is read in a millisecond."""
_START_SECONDS = 30.0
"""Time in which py-spy starts and ends: it reads the symbols of a large process first."""
_MAX_BYTES = 16 << 20


class StackSamples(NamedTuple):
    """One rank's stacks, or the reason why there are none.

    `text` has a line per stack: `thread;outermost (file:line);...;innermost (file:line) count`.
    """

    rank: int
    text: str = ""
    reason: str = ""


def sample_ranks(
    ranks: Sequence[RankServer], py_spy: str | None, seconds: float
) -> list[StackSamples]:
    """Sample all ranks at the same time for `seconds`; no rank is paused."""
    with ThreadPoolExecutor(max(len(ranks), 1)) as pool:
        return list(pool.map(lambda rank: _sample(rank, py_spy, seconds), ranks))


def _sample(rank: RankServer, py_spy: str | None, seconds: float) -> StackSamples:
    identity = rank.identity
    if py_spy is None:
        return StackSamples(identity.rank, reason=MISSING)
    if not is_process_of(rank.owner, identity.pid, identity.process_start):
        return StackSamples(identity.rank, reason=FOREIGN)
    with tempfile.TemporaryDirectory(prefix="stepwatch-stacks-") as folder:
        out = Path(folder, "stacks")
        words = [py_spy, "record", "--format", "raw", "--nonblocking", "--idle", "--threads"]
        words += ["--function", "--full-filenames", "--rate", str(RATE), "--output", str(out)]
        words += ["--duration", str(max(round(seconds), 1)), "--pid", str(identity.pid)]
        try:
            ended = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds + _START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return StackSamples(identity.rank, reason="py-spy did not end in time")
        except OSError as error:
            return StackSamples(identity.rank, reason=f"cannot run py-spy: {error.strerror}")
        if ended.returncode or not out.exists():
            reason = failure_of(ended.stderr[:4096].decode("utf-8", "replace"))
            return StackSamples(identity.rank, reason=reason)
        with out.open("rb") as file:
            return StackSamples(identity.rank, file.read(_MAX_BYTES).decode("utf-8", "replace"))
