"""Runs of several ranks that are forked from one process instead of started by torchrun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ports import free_port

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class RunEnd:
    """The ranks' exit codes in order, negative for a signal, and all their output."""

    codes: list[int]
    output: str


class ForkedRanks:
    """Starts `server` at the first run and keeps it for the next ones."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(
        self,
        command: Sequence[str],
        world: int,
        folder: Path,
        environ: Mapping[str, str],
        most_seconds: float = 300.0,
    ) -> RunEnd:
        """Run `-m module words...` or `program words...` on `world` ranks to the end.

        `environ` is all that the ranks get, beside their place in the world; their output is
        written into `folder`. Ranks that have not ended after `most_seconds` are killed.
        """
        folder.mkdir(exist_ok=True, parents=True)
        self._say({
            "command": list(command),
            "world": world,
            "port": free_port(),
            "folder": str(folder),
            "environ": dict(environ),
            "most_seconds": most_seconds,
        })  # fmt: skip
        codes = self._hear()
        logs = [folder / f"rank-{rank}.log" for rank in range(world)]
        return RunEnd(codes, "".join(log.read_text(errors="replace") for log in logs))

    def close(self) -> None:
        """End the server, and whatever rank still runs."""
        if self._server is not None:
            self._server.kill()
            self._server.communicate()

    def _say(self, run: dict[str, Any]) -> None:
        if self._server is None:
            self._server = self._start()
            assert self._hear() == []
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(run) + "\n")
        self._server.stdin.flush()

    def _hear(self) -> list[int]:
        assert self._server is not None and self._server.stdout is not None
        line = self._server.stdout.readline()
        assert line, "the fork server ended; its error is above"
        codes: list[int] = json.loads(line)
        return codes

    def _start(self) -> subprocess.Popen[str]:
        paths = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        return subprocess.Popen(
            [sys.executable, "-m", "tests.ranks.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            text=True,
        )
