"""Compares the two traces of a requested profile, beside the evaluation."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stepwatch.collector.analysis.profiles.child import DEADLINE_SECONDS
from stepwatch.collector.store.profiles import Profiles, Request
from stepwatch.signals.plain_text import plain_line

logger = logging.getLogger(__name__)

_CHILD = "stepwatch.collector.analysis.profiles.child"
_GRACE_SECONDS = 5.0
"""Time after its deadline in which the process ends by itself."""


class Comparisons:
    """Compares one pair of traces at a time, in a process of its own."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._turn = threading.Lock()

    def begin(self, request: Request) -> None:
        """Compare the traces of a request on another thread, and store the result."""
        # A daemon: a comparison never delays the collector's end. The request then expires.
        threading.Thread(target=self._compare, args=(request,), daemon=True).start()

    def _compare(self, request: Request) -> None:
        try:
            with self._turn, tempfile.TemporaryDirectory(prefix="stepwatch-profiles-") as folder:
                answer = self._answer_of(request, Path(folder))
                sentence = plain_line(str(answer.get("sentence") or answer["problem"]))
                self._profiles.close(request.id, sentence, answer.get("comparison"))
        except (OSError, sa.exc.SQLAlchemyError) as error:
            logger.warning("profile %s stays without a comparison: %s", request.id, error)

    def _answer_of(self, request: Request, folder: Path) -> dict[str, Any]:
        paths = list[Path]()
        for rank in (request.wanted.rank, request.wanted.peer):
            trace = self._profiles.trace(request.id, rank)
            if trace is None:
                return {"problem": f"the trace of rank {rank} is no longer stored"}
            paths.append(folder / f"{rank}.json.gz")
            paths[-1].write_bytes(trace)
        slow, peer = paths
        return compared(slow, peer)


def compared(slow: Path, peer: Path, seconds: float = DEADLINE_SECONDS) -> dict[str, Any]:
    """Return the comparison of two trace files: `sentence` and `comparison`, or `problem`.

    Raises:
        OSError: no process can be started.
    """
    words = [sys.executable, "-P", "-m", _CHILD, str(slow), str(peer)]
    try:
        ended = subprocess.run(
            words, capture_output=True, check=False, timeout=seconds + _GRACE_SECONDS
        )
        answer = json.loads(ended.stdout) if ended.returncode == 0 else None
    except subprocess.TimeoutExpired:
        answer = None
    except ValueError:
        return {"problem": "the comparison gave no answer"}
    if isinstance(answer, dict):
        return answer
    return {"problem": f"the traces were not compared within {seconds:.0f} s and the memory limit"}
