"""Inspects the ranks in a stalled attempt from outside.

This is not a probe: a probe reads one source at every flush. The inspector asks ranks only when
one looks stalled, at most every `AGAIN_SECONDS`, in its own thread. All waits and reads are
bounded: the agent's loop never waits for a rank.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.agent.rings.processes import is_process_of
from stepwatch.signals.blackbox import Identity, RingReader
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.phrases import file_problem
from stepwatch.signals.records import DTYPES, GilState, Kind, text_bytes
from stepwatch.signals.wire import Rows

from . import flight, server, stack
from .trigger import Progress, StallTrigger

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
"""Seconds between two rounds while the stall lasts."""
GIL_SECONDS = 2.0
"""A lock counts as held if the side thread has not run for this many seconds."""
AT_ONCE = 4
"""Number of ranks asked in parallel."""


class AskedRank(NamedTuple):
    """A rank to ask: its identity, ring owner, server socket, and progress.

    `owner` is a user id.
    """

    identity: Identity
    owner: int
    socket: Path
    step: int
    seq: int
    heartbeat_age: float


class Answer(NamedTuple):
    """One rank's inspection result."""

    rank: AskedRank
    flight: flight.Flight | None
    stack: stack.Stack
    note: str


class StallInspector:
    """Watch an attempt's ranks, and ask all of them when one is stalled.

    `py_spy` is that program's path, None if there is none.
    """

    def __init__(self, clock: Clock, py_spy: str | None = None) -> None:
        self._clock = clock
        self._py_spy = py_spy
        self._triggers: dict[int, StallTrigger] = {}
        self._asked_ns: dict[AttemptKey, int] = {}
        self._answers: dict[AttemptKey, Tables] = {}
        self._lock = threading.Lock()
        self._round: threading.Thread | None = None

    def inspect(self, key: AttemptKey, readers: Iterable[RingReader], steps: Rows | None) -> None:
        """Watch attempt `key`'s ranks, and start asking all of them if one is stalled.

        `steps` are the STEP records since the last call.
        """
        now = self._clock.monotonic_ns()
        running = [reader for reader in readers if not reader.closed]
        self._note(running, steps)
        stalled = [self._is_stalled(reader, now) for reader in running]
        since = now - self._asked_ns.get(key, now - _NEVER)
        if not any(stalled) or since < AGAIN_SECONDS * NANOSECONDS or self._is_asking():
            return
        self._asked_ns[key] = now
        ranks = [_rank_to_ask(reader, now) for reader in running]
        self._round = threading.Thread(
            target=self._ask_all, args=(key, ranks), name="stall-inspector", daemon=True
        )
        try:
            self._round.start()
        except RuntimeError as error:  # no resources for a thread: the next flush asks
            logger.warning("cannot ask the ranks of %s: %s", key.job, error)
            self._round = None
            del self._asked_ns[key]

    def usual_seconds(self, ring_id: int) -> float:
        """Return the usual duration of a ring's steps; 0 before the first has ended."""
        trigger = self._triggers.get(ring_id)
        return 0.0 if trigger is None else trigger.usual_seconds

    def collect(self, key: AttemptKey) -> Tables:
        """Return attempt `key`'s new answers as DIAGNOSIS and FLIGHT tables."""
        with self._lock:
            return self._answers.pop(key, {})

    def forget(self, keys: set[AttemptKey], ring_ids: set[int]) -> None:
        """Forget all other attempts and rings."""
        self._asked_ns = {key: asked_ns for key, asked_ns in self._asked_ns.items() if key in keys}
        with self._lock:
            for key in self._answers.keys() - keys:
                del self._answers[key]
        self._triggers = {
            ring: trigger for ring, trigger in self._triggers.items() if ring in ring_ids
        }

    def wait(self, seconds: float) -> None:
        """Wait for a round to end."""
        if self._round is not None:
            self._round.join(seconds)

    def _is_asking(self) -> bool:
        return self._round is not None and self._round.is_alive()

    def _is_stalled(self, reader: RingReader, now: int) -> bool:
        lines = reader.lines()
        live, collective = lines.live, lines.collective
        moved = max(live.since_ns, collective.since_ns)
        if not moved:  # not started
            return False
        trigger = self._triggers.setdefault(reader.identity.ring_id, StallTrigger())
        return trigger.is_stalled(Progress(now, live.phase, moved))

    def _note(self, readers: list[RingReader], steps: Rows | None) -> None:
        rings = {reader.identity.rank: reader.identity.ring_id for reader in readers}
        if steps is None:
            return
        seconds = (steps["duration_ns"] / NANOSECONDS).tolist()
        for rank, lasted in zip(steps["rank"].tolist(), seconds, strict=True):
            ring_id = rings.get(rank)
            if ring_id is not None:
                self._triggers.setdefault(ring_id, StallTrigger()).note_step(lasted)

    def _ask_all(self, key: AttemptKey, ranks: list[AskedRank]) -> None:
        with ThreadPoolExecutor(AT_ONCE, "stall-inspector") as pool:
            answers = list(pool.map(self._ask, ranks))
        tables = _tables(answers, self._clock.monotonic_ns)
        with self._lock:
            self._answers[key] = tables

    def _ask(self, rank: AskedRank) -> Answer:
        recorders, note = ask_recorders(rank.socket, rank.owner)
        return Answer(rank, recorders, self._stack(rank), note)

    def _stack(self, rank: AskedRank) -> stack.Stack:
        """Return the rank's stack; nothing if the process is not the ring's."""
        pid, start = rank.identity.pid, rank.identity.process_start
        if is_process_of(rank.owner, pid, start):
            dumped = stack.dump(pid, self._py_spy)
            if is_process_of(rank.owner, pid, start):
                return dumped
        return stack.Stack(note=stack.FOREIGN)


def ask_recorders(socket: Path, owner: int | None = None) -> tuple[flight.Flight | None, str]:
    """Read a worker server's flight recorders; without an answer, None and the reason.

    A torch without NCCL has one recorder. If there are two and NCCL's fails, the other is not
    asked: its world group numbers are not NCCL's. With `owner`, only that user's process is asked.
    """
    try:
        nccl = flight.parse_nccl(server.ask(socket, flight.NCCL, owner))
    except server.UnknownHandlerError:
        nccl = flight.Flight()
    except (OSError, ValueError) as error:
        return None, _silent(error)
    try:
        backends = flight.parse(server.ask(socket, flight.OTHERS, owner))
    except (OSError, ValueError) as error:
        if nccl.enqueued < 0:
            return None, _silent(error)
        backends = flight.Flight()
    return flight.merged(nccl, backends), ""


_NEVER = 1 << 62


def _silent(error: OSError | ValueError) -> str:
    return f"its flight recorder did not answer: {file_problem(error)}"


def _rank_to_ask(reader: RingReader, now: int) -> AskedRank:
    identity = reader.identity
    # The name alone: the agent may see the directory under another path, and asks no other socket.
    name = Path(identity.worker_socket).name or f"{identity.rank}.sock"
    age = (now - reader.heartbeat_ns) / NANOSECONDS
    place = reader.path.with_name(name)
    return AskedRank(identity, reader.owner, place, reader.live().step, reader.head, age)


def _tables(answers: list[Answer], now_ns: Callable[[], int]) -> Tables:
    rows = np.zeros(len(answers), dtype=DTYPES[Kind.DIAGNOSIS])
    for row, answer in zip(rows, answers, strict=True):
        recorded = answer.flight or flight.Flight()
        _fill(row, answer.rank, now_ns())
        row["worker_answered"], row["enqueued"] = answer.flight is not None, recorded.enqueued
        row["completed"], row["gil"] = recorded.completed, _gil(answer)
        row["stack_read"] = answer.stack.owner is not None
        for name in ("function", "line"):
            row[name] = _text(getattr(answer.stack, name), Kind.DIAGNOSIS, name)
        row["stack"] = _text(answer.stack.text, Kind.DIAGNOSIS, "stack")
        row["note"] = _text("; ".join(filter(None, (answer.stack.note, answer.note))),
                            Kind.DIAGNOSIS, "note")  # fmt: skip
    flights = [_flight_rows(answer, now_ns()) for answer in answers if answer.flight is not None]
    tables = {Kind.DIAGNOSIS: rows}
    if any(map(len, flights)):
        tables[Kind.FLIGHT] = np.concatenate(flights)
    return tables


def _fill(row: np.void, rank: AskedRank, now_ns: int) -> None:
    row["rank"], row["seq"] = rank.identity.rank, rank.seq
    row["step"], row["time_ns"] = rank.step, now_ns


def _flight_rows(answer: Answer, now_ns: int) -> Rows:
    entries = answer.flight.entries if answer.flight is not None else ()
    rows = np.zeros(len(entries), dtype=DTYPES[Kind.FLIGHT])
    for row, entry in zip(rows, entries, strict=True):
        _fill(row, answer.rank, now_ns)
        row["collective_seq"] = entry.collective_seq
        for name in ("group", "op", "sizes", "state"):
            row[name] = _text(getattr(entry, name), Kind.FLIGHT, name)
    return rows


def _gil(answer: Answer) -> GilState:
    if answer.stack.owner is None:
        return GilState.UNKNOWN
    is_held = answer.stack.owner and answer.rank.heartbeat_age > GIL_SECONDS
    return GilState.HELD if is_held else GilState.FREE


def _text(text: str, kind: Kind, field: str) -> bytes:
    return text_bytes(text, DTYPES[kind][field].itemsize)
