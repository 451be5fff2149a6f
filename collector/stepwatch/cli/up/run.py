"""Run agent and collector until Ctrl-C, and restart them if they end by themselves."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from typing import Any, NoReturn

from stepwatch.cli import text
from stepwatch.cli.interruptions import terminable, undisturbed
from stepwatch.cli.processes import Processes
from stepwatch.cli.source import plain_document
from stepwatch.cli.up.feed import Feed, stamped
from stepwatch.cli.up.plan import Plan
from stepwatch.cli.up.restarts import Restarts
from stepwatch.cli.up.words import ready_text, stopped_text
from stepwatch.signals import places, presence
from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.http import Client, HttpError

POLL_SECONDS = 1.0
_START_SECONDS = 60.0
_NAMES = ("collector", "agent")
"""Start order; they stop in reverse, so that the agent can send everything."""


class UpError(StepwatchError):
    """A part did not start, or ends repeatedly."""


def run_up(plan: Plan) -> int:
    """Run `plan` until Ctrl-C or SIGTERM, its normal end; return the exit code.

    Raises:
        UpError: a part does not run; the message quotes its last line.
    """
    up = Up(plan)
    try:
        with terminable():
            up.start()
            _say(ready_text(plan))
            up.follow()
    except KeyboardInterrupt:
        up.close()
        _say(stopped_text(plan))
    finally:
        up.close()
    return 0


class Up:
    """The agent and the collector of one `stepwatch up`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        environ = {places.ENV_RING_DIR: str(plan.rings)}
        self._processes = Processes(uuid.uuid4().hex, plan.folder, environ)
        self._client = Client(plan.url, seconds=5.0)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts = {name: Restarts() for name in _NAMES}
        self._feed = Feed()

    def start(self) -> None:
        """Start both, each after the previous one is ready.

        Raises:
            UpError: one of them is not ready in time.
        """
        for name in _NAMES:
            self._start(name)
            deadline = time.monotonic() + _START_SECONDS
            while not self._is_ready(name):
                if self._running[name].poll() is not None or time.monotonic() > deadline:
                    raise UpError(f"the {name} did not start: {self._processes.last_line(name)}")
                time.sleep(0.1)

    def follow(self) -> NoReturn:
        """Print events, and keep both running; it ends only with an exception.

        Raises:
            UpError: one of them ends repeatedly.
            KeyboardInterrupt: the user stops the command.
        """
        while True:
            for name in _NAMES:
                self._keep(name)
            jobs, incidents = self._ask("/v1/jobs", "jobs"), self._ask("/v1/incidents", "incidents")
            if jobs is not None and incidents is not None:
                width = text.columns() - 1 if sys.stdout.isatty() else None
                for line in stamped(self._feed.news(jobs, incidents), time.time(), width):
                    _say(line)
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        """End both processes."""
        with undisturbed():
            self._client.close()
            self._processes.stop_all()

    def _start(self, name: str) -> None:
        plan = self.plan
        log = self._processes.log(name)
        if log.exists():
            log.replace(log.with_suffix(".log.before"))
        words = {
            "collector": ["--store", str(plan.store), "--port", str(plan.port)],
            "agent": ["--collector", plan.url, "--ring-dir", str(plan.rings), "--spool",
                      str(plan.folder / "spool"), "--port", str(plan.agent_port)],
        }  # fmt: skip
        self._running[name] = self._processes.start(name, name, *words[name])

    def _is_ready(self, name: str) -> bool:
        if name == "collector":
            return self._ask("/v1/jobs", "jobs") is not None
        agent = presence.read(self.plan.rings)
        is_started_here = agent is not None and agent.pid == self._running[name].pid
        return is_started_here and agent is not None and agent.link == presence.CONNECTED

    def _keep(self, name: str) -> None:
        """Restart `name` if it has ended."""
        code = self._running[name].poll()
        if code is None:
            return
        last = self._processes.last_line(name)
        delay = self._restarts[name].delay(time.monotonic())
        if delay is None:
            raise UpError(f"the {name} ends again and again (exit code {code}): {last}")
        _say(f"the {name} ended (exit code {code}): {last}; it starts again")
        time.sleep(delay)
        self._start(name)

    def _ask(self, path: str, key: str) -> list[dict[str, Any]] | None:
        """Return the list in the collector's answer; None while it does not answer."""
        try:
            response = self._client.get(path)
            rows: list[dict[str, Any]] = plain_document(response.json()[key])
        except (HttpError, ValueError, KeyError, TypeError):
            return None
        return rows if response.status_code == 200 else None


def _say(words: str) -> None:
    print(words, flush=True)
