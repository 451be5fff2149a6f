"""Run a simulated fleet against a collector: pace it, send segments, and request the findings."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwatch.cli.source import SourceError
from stepwatch.collector.job_states import ENDED, QUARANTINED
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.http import Client, HttpError

from .fleet import Fleet, Flush
from .plan import Plan
from .senders import Senders

CONNECTIONS = 4
"""Concurrent requests, a quarter of a collector's limit."""
FULL_SPEED_SEGMENTS, NO_LIMIT = 256, 1 << 30
"""Most segments waiting on one connection."""
PROGRESS_SECONDS = 5.0
_SLICE_SECONDS = 0.1
_LOOK_SECONDS = 20.0
"""How long a run outside real time waits at its end until its faults are detected."""
_HEALTHY_LOOK_SECONDS = 3.0
"""The same without a fault, or after the last new incident: some evaluations."""
_SEND_SECONDS, _INTERRUPTED_SEND_SECONDS = 120.0, 10.0
"""How long the end waits until the collector has accepted the last segments."""
_SETTLE_SECONDS = 15.0
"""How long the end waits until the collector reports the job as ended."""
_POLL_SECONDS = 0.5


@dataclass
class Sent:
    """Amount sent and its cost; seconds are wall time and this process's CPU time."""

    rank_steps: int = 0
    segments: int = 0
    nbytes: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    making_seconds: float = 0.0
    """CPU seconds for creating and packing rows alone."""
    late_seconds: float = 0.0
    """The longest delay of a flush after its scheduled time."""
    failed_requests: int = 0
    repeated: int = 0
    refused: int = 0
    unsent: int = 0


@dataclass
class Outcome:
    """Result of a run; `faults` holds each fault and its start (Unix seconds)."""

    plan: Plan
    sent: Sent = field(default_factory=Sent)
    interrupted: bool = False
    newest_step: int = -1
    state: str | None = None
    faults: list[tuple[str, float]] = field(default_factory=list)
    incidents: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the collector accepted every segment."""
        return not (self.sent.refused or self.sent.unsent)


class Simulation:
    """One run of `plan` against the collector behind `client`; `note` prints a progress line.

    `interrupt` may be called at any time, also from a signal handler: the first call ends the
    ranks, the second drops unsent segments.
    """

    def __init__(
        self,
        plan: Plan,
        client: Client,
        clock: Clock,
        note: Callable[[str], None],
        connections: int = CONNECTIONS,
    ) -> None:
        self.outcome = Outcome(plan)
        self._plan = plan
        self._clock = clock
        self._note = note
        self._client = client
        # A real run waits for its slowest node, so at full speed no node may be far ahead.
        most = NO_LIMIT if plan.speed else FULL_SPEED_SEGMENTS
        self._senders = Senders(client, connections, most)
        self._epoch_ns = clock.wall_ns() - _past_ns(plan)
        self._fleet = Fleet(plan, self._epoch_ns, secrets.randbits(62))
        self._earlier_incidents: dict[str, float] = {}
        """Incidents from earlier runs with this name, and the time when each was last seen."""
        self._gives_up = False
        self._began_ns = self._noted_ns = self._looked_ns = 0

    def interrupt(self) -> None:
        """Stop the simulated job; a second call stops this process."""
        self._gives_up = self.outcome.interrupted
        self.outcome.interrupted = True

    def run(self) -> Outcome:
        """Send all segments and return the outcome.

        Raises:
            SourceError: no collector answers at the beginning.
            StepwatchError: a sending thread died.
        """
        if not self._senders.connect():
            raise SourceError(
                f"no collector answers at {self._client.address.origin}; start one with "
                "`stepwatch collector`, or pass --collector URL"
            )
        self._earlier_incidents = {item["id"]: item["last_seen_at"] for item in self._incidents()}
        self._began_ns = self._noted_ns = self._clock.monotonic_ns()
        cpu = time.process_time()
        self._senders.start()
        try:
            self._make()
            self._drain(_INTERRUPTED_SEND_SECONDS if self.outcome.interrupted else _SEND_SECONDS)
        finally:
            self._senders.close()
        self._count(cpu)
        self._ask()
        return self.outcome

    def _make(self) -> None:
        sent, looked = self.outcome.sent, False
        flushes = self._fleet.flushes()
        while True:
            self._fleet.asked_seconds = self._senders.asked_seconds
            began = time.thread_time()
            flush = next(flushes, None)
            sent.making_seconds += time.thread_time() - began
            if flush is None or self._gives_up:
                return
            if flush.is_last and not looked and self._plan.speed != 1.0:
                looked = True
                self._look()
            self._await(flush)
            self._senders.put(flush.part, flush.segments)
            sent.rank_steps += flush.rank_steps
            sent.segments += len(flush.segments)
            sent.nbytes += sum(map(len, flush.segments))
            self._progress()

    def _await(self, flush: Flush) -> None:
        """Wait for a flush's scheduled time, and for room in the queue."""
        due = self._began_ns
        if self._plan.speed:
            due += round(flush.true_ns / self._plan.speed)
        while self._waits(due, flush) and not self._gives_up:
            time.sleep(min(max(-self._since(due), 0.001), _SLICE_SECONDS))
            self._progress()
            self._senders.check()
        if self._plan.speed:
            sent = self.outcome.sent
            sent.late_seconds = max(sent.late_seconds, self._since(due))

    def _waits(self, due: int, flush: Flush) -> bool:
        if self.outcome.interrupted:
            self._fleet.stop()
            return self._senders.is_full(flush.part)
        return self._clock.monotonic_ns() < due or self._senders.is_full(flush.part)

    def _drain(self, seconds: float) -> None:
        """Wait until the collector accepted everything, or for `seconds` without progress."""
        remaining, since = len(self._senders), self._clock.monotonic_ns()
        while len(self._senders) and not self._gives_up:
            if len(self._senders) < remaining:
                remaining, since = len(self._senders), self._clock.monotonic_ns()
            if self._since(since) > seconds:
                return
            time.sleep(0.01)
            self._progress()
            self._senders.check()

    def _look(self) -> None:
        """Let the collector evaluate the job before its end; a fast run leaves no time for it."""
        self._drain(_SEND_SECONDS)
        broken, began = bool(self._plan.faults), self._clock.monotonic_ns()
        seconds = _LOOK_SECONDS if broken else _HEALTHY_LOOK_SECONDS
        incident_ids, changed = frozenset[str](), began
        while self._since(began) < seconds and not self.outcome.interrupted:
            current_ids = frozenset(item["id"] for item in self._incidents())
            if current_ids != incident_ids:
                incident_ids, changed = current_ids, self._clock.monotonic_ns()
            if incident_ids and self._since(changed) >= _HEALTHY_LOOK_SECONDS:
                break  # a hang may begin as a pause
            time.sleep(_POLL_SECONDS)
        self._looked_ns = self._clock.monotonic_ns() - began

    def _count(self, cpu_before: float) -> None:
        sent, senders = self.outcome.sent, self._senders
        sent.cpu_seconds = time.process_time() - cpu_before
        sent.wall_seconds = self._since(self._began_ns + self._looked_ns)
        sent.failed_requests, sent.repeated = senders.failed_requests, senders.repeated
        sent.refused, sent.unsent = senders.refused, senders.unsent
        self.outcome.newest_step = self._fleet.newest_step
        self.outcome.faults = [
            (fault.describe(), (self._epoch_ns + began) / NANOSECONDS)
            for fault, began in self._fleet.began_ns.items()
        ]

    def _ask(self) -> None:
        """Request the job's state and incidents after the collector reports its end."""
        began = self._clock.monotonic_ns()
        while self._since(began) < _SETTLE_SECONDS and not self.outcome.sent.unsent:
            self.outcome.state = self._state()
            if self.outcome.state in (*ENDED, QUARANTINED):
                break
            time.sleep(_POLL_SECONDS)
        self.outcome.incidents = self._incidents()

    def _state(self) -> str | None:
        jobs = self._get("/v1/jobs").get("jobs", ())
        return next((job["state"] for job in jobs if job["job"] == self._plan.job), None)

    def _incidents(self) -> list[dict[str, Any]]:
        """Return the job's incidents seen since this run began."""
        incidents = self._get("/v1/incidents", job=self._plan.job).get("incidents", [])
        return [
            item
            for item in incidents
            if self._earlier_incidents.get(item["id"]) != item["last_seen_at"]
        ]

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        """Return the answer as JSON; empty without one."""
        try:
            response = self._client.get(path, params=query)
            answer = response.json() if response.status_code == 200 else {}
        except (HttpError, ValueError):
            return {}
        return answer if isinstance(answer, dict) else {}

    def _since(self, moment_ns: int) -> float:
        """Return seconds since a monotonic time."""
        return (self._clock.monotonic_ns() - moment_ns) / NANOSECONDS

    def _progress(self) -> None:
        now = self._clock.monotonic_ns()
        if now - self._noted_ns < PROGRESS_SECONDS * NANOSECONDS:
            return
        self._noted_ns = now
        sent = self.outcome.sent
        words = (
            f"{self._since(self._began_ns):5.0f} s  step {self._fleet.newest_step}, "
            f"{sent.rank_steps:,} rank-steps made, {len(self._senders):,} segments wait"
        )
        if self._senders.failed_requests:
            words += f", {self._senders.failed_requests} failed requests"
        self._note(words)


def _past_ns(plan: Plan) -> int:
    """Return how far before now a run faster than real time begins, so that it ends about now."""
    share = 1.0 if not plan.speed else max(0.0, 1.0 - 1.0 / plan.speed)
    return round(share * plan.expected_seconds * NANOSECONDS)
