"""One collector, one agent and one fork server for all runs; nothing outlives `close`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.services import ROOT, ServiceError, Services
from tests.verdicts.plan import Plan


class Site(Services):
    """The services and a fork server, sharing `folder` and `rings`."""

    def __init__(
        self,
        folder: Path,
        rings: Path,
        agent_options: Sequence[str] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        paths = [str(ROOT), *filter(None, sys.path)]
        super().__init__(folder, rings, paths, agent_options=agent_options, environ=environ)
        self._server: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start everything and wait until it answers.

        Raises:
            ServiceError: a service does not answer.
        """
        with open(self.folder / "server.log", "ab") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.verdicts.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.environ,
                cwd=ROOT,
                text=True,
            )
        self._read_answer()
        super().start()

    def launch(self, plan: Plan) -> list[int]:
        """Start the ranks of a run; return their process ids."""
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(plan.line())
        self._server.stdin.flush()
        pids: list[int] = json.loads(self._read_answer())
        return pids

    def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
        super().close()

    def _read_answer(self) -> str:
        assert self._server is not None
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            log = (self.folder / "server.log").read_text(errors="replace").strip()
            raise ServiceError(f"the fork server ended: {log.splitlines()[-1] if log else ''}")
        return line


def kill(pids: list[int]) -> None:
    """Kill the processes, whatever state they are in."""
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Return whether the process exists."""
    return Path(f"/proc/{pid}").exists()
