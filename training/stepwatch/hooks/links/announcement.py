"""The two lines that a run prints: its job and agent at the start, its result at the end."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.identity import is_quiet
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals import places, presence
from stepwatch.signals.blackbox import Identity
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.presence import AWAY, CONNECTED, Presence


class Announcement:
    """Prints one line to stderr when rank 0 begins and one when it ends.

    Other ranks print nothing, and with STEPWATCH_QUIET=1 no rank prints. It reads one small file
    that the node's agent keeps beside the rings; it sends no request and never waits.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self._recorder = recorder
        self._began: tuple[int, int] | None = None
        self._started = False

    @guarded()
    def start(self) -> None:
        """Print the watched rank and the page once; or the missing part, and the command for it."""
        identity = self._speaker()
        if identity is not None and not self._started:
            self._started = True
            now = time.monotonic_ns()
            _print(start_line(identity, known_agent(), now, Path(_rings())))

    def begin(self) -> None:
        """The first step begins: the step rate counts from here."""
        self._began = (self._recorder.clock(), self._recorder.step_number)
        self.start()

    @guarded()
    def end(self) -> None:
        """Print the run's result: steps, step rate, incidents if the agent knows them, the page."""
        identity = self._speaker()
        if identity is not None and self._started and self._began is not None:
            since, first = self._began
            self._began = None
            seconds = (self._recorder.clock() - since) / NANOSECONDS
            steps = self._recorder.step_number - first
            _print(end_line(identity, steps, seconds, known_agent()))

    def _speaker(self) -> Identity | None:
        """Return this rank's identity if it prints the lines."""
        ring = self._recorder.ring
        if ring is None or ring.identity.rank or self._recorder.is_child():
            return None
        return None if is_quiet(os.environ) else ring.identity


def start_line(identity: Identity, agent: Presence | None, now_ns: int, rings: Path) -> str:
    """Return `watching rank 0 of 8 as job llama-7b; agent: connected; page: URL`, or the fix."""
    attempt = f", attempt {identity.attempt}" if identity.attempt else ""
    watching = f"watching rank {identity.rank} of {identity.world} as job {identity.job}{attempt}"
    if agent is None or not agent.is_fresh(now_ns):
        state = "none runs on this node" if agent is None else "it makes no progress"
        return (
            f"{watching}; agent: {state}, records wait in {rings} and the oldest are overwritten; "
            f"start one: {_agent_command(rings)}"
        )
    if agent.link == AWAY:
        return (
            f"{watching}; agent: no collector answers at {agent.collector}, records wait on this "
            f"node; start it: {_collector_command(agent.collector)}"
        )
    state = CONNECTED if agent.link == CONNECTED else f"connecting to {agent.collector}"
    return f"{watching}; agent: {state}; page: {agent.page_of(identity.job)}"


def end_line(identity: Identity, steps: int, seconds: float, agent: Presence | None) -> str:
    """Return `job llama-7b: 1200 steps in 10.2 min, 1.96 steps/s; incidents: 0; page: URL`.

    The agent knows the newest attempt's incidents: for a later attempt than the first, the line
    names the attempt.
    """
    if steps <= 0:
        return f"job {identity.job}: no step was completed"
    pace = f"{steps / seconds:.3g} steps/s" if seconds > 0 else "pace unknown"
    counted = agent.incidents.get(identity.job) if agent is not None else None
    incidents = "unknown" if counted is None else str(counted)
    incidents += f" in attempt {identity.attempt}" if identity.attempt else ""
    page = f"; page: {agent.page_of(identity.job)}" if agent is not None else ""
    plural = "" if steps == 1 else "s"
    line = f"job {identity.job}: {steps} step{plural} in {_duration(seconds)}, {pace}"
    return f"{line}; incidents: {incidents}{page}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _agent_command(rings: Path) -> str:
    """Return the command for an agent that finds these rings; on one node, for all services."""
    where = "" if rings == places.DEFAULT_RING_DIR else f" --ring-dir {rings}"
    local, world = (os.environ.get(name, "1") for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    if os.environ.get(places.ENV_COLLECTOR):
        return f"stepwatch agent{where}"
    if local == world:
        return f"stepwatch up{where}"
    return f"stepwatch agent --collector http://HOST:{places.DEFAULT_COLLECTOR_PORT}{where}"


def _collector_command(address: str) -> str:
    port = address.rpartition(":")[2].rstrip("/")
    host = address.rpartition("//")[2].partition(":")[0]
    if host in ("127.0.0.1", "localhost"):
        return f"stepwatch collector --port {port}"
    return f"stepwatch collector --host 0.0.0.0 --token-file FILE, on {host}"


def _rings() -> str:
    return str(places.ring_dir())


def known_agent() -> Presence | None:
    """Return this node's agent."""
    return presence.read_near(places.ring_dir())


def _print(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"stepwatch: {plain_line(line)}\n")
        sys.stderr.flush()
