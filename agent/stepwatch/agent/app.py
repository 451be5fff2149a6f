"""The agent object: a polling loop, a sending thread and `/metrics`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from stepwatch.agent.announcement import Announcement
from stepwatch.agent.checkpoints.jobs import JobCheckpoints
from stepwatch.agent.checkpoints.jobs.verifier import FOLDER as CHECKPOINTS
from stepwatch.agent.exporter import NodeExporter
from stepwatch.agent.isolation.readings import Readings
from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.agent.node_report import NodeReport
from stepwatch.agent.non_finite import NonFinite
from stepwatch.agent.options import AgentOptions, make_client, make_metrics, make_tracer
from stepwatch.agent.otlp.points import points_of
from stepwatch.agent.pace import FlushPace
from stepwatch.agent.probes import Probe, ProbeContext
from stepwatch.agent.probes.probe import RankProcesses
from stepwatch.agent.probes.registry import discover
from stepwatch.agent.profiles.requests import ProfileRequests
from stepwatch.agent.relay.relay import Relay
from stepwatch.agent.relay.sender import Sender
from stepwatch.agent.rings.copies import FOLDER as COPIES
from stepwatch.agent.rings.copies import RingCopies
from stepwatch.agent.rings.ended import EndedRings
from stepwatch.agent.rings.last_lines import EndedRanks
from stepwatch.agent.rings.process_exits import ProcessExits
from stepwatch.agent.rings.tail import Position, RingTail, Tail, WatchedRank, watched
from stepwatch.agent.self_report import self_report
from stepwatch.agent.spool import Spool
from stepwatch.agent.stalls.alarm import Alarm
from stepwatch.agent.stalls.inspector import StallInspector
from stepwatch.agent.stalls.stack import find_py_spy
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.agent.survival import SurvivedErrors
from stepwatch.agent.web.application import Application
from stepwatch.agent.web.health import Health
from stepwatch.agent.web.server import serve
from stepwatch.signals import places
from stepwatch.signals.clock import Clock, ClockPair, SystemClock
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.otlp.points import Point
from stepwatch.signals.presence import AWAY
from stepwatch.signals.records import Kind

__all__ = ["Agent", "AgentOptions"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """Rows from one flush of one attempt's rings.

    `ended` lists rings whose ranks had ended before the read. `positions` holds each ring's
    position before the read.
    """

    key: AttemptKey
    tails: list[RingTail]
    ended: list[RingTail]
    positions: list[Position]
    tables: Tables


class Agent:
    """Read, spool and send until `stop` is called; by default every discovered probe runs.

    Raises:
        ConfigurationError: the spool, the port or the collector's URL cannot be used.
    """

    def __init__(
        self,
        options: AgentOptions,
        clock: Clock | None = None,
        probes: Sequence[type[Probe]] | None = None,
    ) -> None:
        self.options = options
        self.node = options.node
        self.clock = clock or SystemClock()
        self.errors = SurvivedErrors(self.clock)
        kinds = discover() if probes is None else probes
        self._rank_processes = RankProcesses()
        context = ProbeContext(
            self.clock,
            lambda: self._ranks,
            self._rank_processes,
            kernel_log=options.kernel_log,
            dcgm=options.dcgm,
        )
        self.readings = Readings(
            (probe.build(context) for probe in kinds if probe.is_enabled(context)),
            self.clock,
            self._rank_processes,
        )
        self.spool = Spool(
            options.spool_dir,
            options.node,
            options.spool_limit_bytes,
            {Kind.AGENT, *(probe.kind for probe in kinds if probe.expendable)},
        )
        self.node_report = NodeReport(self.spool)
        self.tail = Tail(options.ring_dir, self.spool.cursors(), errors=self.errors)
        self.ended_rings = self._ended_rings()
        self.non_finite = NonFinite()
        self.exits = ProcessExits(self.clock)
        self.ended_ranks = EndedRanks(self.exits.exit_of)
        self.stalls = StallInspector(self.clock, find_py_spy())
        self.alarm = Alarm(self.stalls.usual_seconds)
        self.checkpoints = self._job_checkpoints()
        client = make_client(options)
        self.relay = Relay(self.spool, client, clock=self.clock)
        self.pace = FlushPace(options.polls_per_flush, options.poll_seconds)
        self.sender = Sender(self.relay, self.clock)
        self.announcement = Announcement(options, self.relay, self.clock)
        self.profiles = ProfileRequests(options.ring_dir, client, self.errors, self.clock)
        self.sender.after_drain = self._after_drain
        self.tracer = make_tracer(options)
        self.metrics = make_metrics(options, self._points, self.clock)
        self._ranks: list[WatchedRank] = []
        self.registry = CollectorRegistry()
        self.registry.register(NodeExporter(self))
        self.polled_ns: int | None = None
        """Monotonic time of the newest ring search; None before the first."""
        self._server = None if options.port is None else self._serve(options.port)
        self._stopping = threading.Event()

    def run(self) -> None:
        """Work until stopped, then read and send a last time, for at most a few seconds."""
        self.sender.thread.start()
        if self.checkpoints is not None:
            self.checkpoints.start()
        polls = 0  # since the newest flush
        while not self._stopping.wait(self.options.poll_seconds):
            for thread in self.threads:
                thread.check()
            self.announcement.update()
            self.poll()
            polls += 1
            if self.pace.is_due(polls, self._is_alarmed):
                polls = 0
                self.flush()
        try:
            self.poll()
            self.flush()
        finally:
            self.announcement.withdraw()
            ended = self.sender.finish(3.0)
        self._close_telemetry()
        if ended:
            self.close()

    @property
    def port(self) -> int | None:
        """The port that serves `/metrics`; None if it is not served."""
        return None if self._server is None else self._server.server_port

    @property
    def ring_dir(self) -> Path:
        """The ring directory."""
        return self.options.ring_dir

    @property
    def threads(self) -> tuple[SupervisedThread, ...]:
        """Threads that restart after an error."""
        optional = (self.metrics, self.checkpoints)
        threads = (part.thread for part in optional if part is not None)
        return self.sender.thread, self.exits.thread, *threads

    def close(self) -> None:
        """Release the spool, the probes, the connections and the watched processes."""
        self.profiles.stop()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._close_telemetry()
        if self.checkpoints is not None:
            self.checkpoints.stop()
        self.exits.close()
        self.readings.close()
        self.relay.client.close()
        self.spool.close()

    def stop(self) -> None:
        """Ask `run` to finish; safe to call in a signal handler."""
        self._stopping.set()
        self.profiles.stop()
        self.sender.stop()

    def poll(self) -> None:
        """Find new rings and watch the processes behind them."""
        with self.errors.survived("look for rings"):
            if self.tail.discover():
                identities = self.tail.identities()
                for identity in identities:
                    self.exits.watch(identity.ring_id, identity.pid, identity.process_start)
                self.exits.forget({identity.ring_id for identity in identities})
        self.polled_ns = self.clock.monotonic_ns()

    def flush(self) -> None:
        """Read rings and probes, and write the new rows into one segment per attempt."""
        self.pace.follow(self.relay.asked_seconds)
        attempts: dict[AttemptKey, list[RingTail]] = {}
        with self.errors.survived("read who writes the rings"):
            attempts = self.tail.attempts()
        self.non_finite.follow(attempts)
        self.announcement.follow(
            key
            for key, tails in attempts.items()
            if any(tail.reader.identity.rank == 0 for tail in tails)
        )
        batches: list[Batch] = []
        for key, tails in attempts.items():
            with self.errors.survived("read rings"):
                batches.append(self._read_rings(key, tails))
        # Probes run after the rings: a rank's last state must not be older than its last record.
        self._ranks = [rank for batch in batches for rank in watched(batch.tails, self.exits)]
        pids = (rank.reader.identity.pid for rank in self._ranks)
        self._rank_processes.pids = frozenset(pids)
        with self.errors.survived("read probes"):
            self.readings.read()
        for batch in batches:
            self._write_segment(batch)
        self._report_checkpoints()
        with self.errors.survived("report the node"):
            self._report_node()
        self.stalls.forget(set(attempts), {identity.ring_id for identity in self.tail.identities()})
        with self.errors.survived("let rings of ended ranks go"):
            self.tail.forget_missing(self.clock.monotonic_ns())
        self.alarm.flushed(self.tail.followed, self.exits)
        self.sender.wake()

    def _is_alarmed(self) -> bool:
        with self.errors.survived("look for late ranks"):
            now = self.clock.monotonic_ns()
            return self.alarm.is_raised(self.tail.followed, self.exits, now)
        return False

    def _after_drain(self) -> None:
        self.announcement.incidents.ask()
        if self.options.profiles:
            self.profiles.begin(self.relay.profiles)

    def _read_rings(self, key: AttemptKey, tails: list[RingTail]) -> Batch:
        now = self.clock.monotonic_ns()
        ended = [tail for tail in tails if tail.ended(now, self.exits)]
        positions = self.tail.positions(tails)
        try:
            return Batch(key, tails, ended, positions, self.tail.read(tails))
        except (OSError, MemoryError):
            self.tail.rewind(positions)
            raise

    def _write_segment(self, batch: Batch) -> None:
        clock = ClockPair.now(self.clock)
        try:
            tables = self._tables(batch, clock)
            if self.checkpoints is not None:  # a path that is noted twice is read twice
                self.checkpoints.follow(batch.key, batch.tails, tables)
            self.spool.put(batch.key, clock, tables)
        except (OSError, MemoryError, SegmentError) as error:
            self.tail.rewind(batch.positions)
            self.errors.count(error)
            logger.warning("cannot spool (%s); records wait in the rings", error)
            return
        self.tail.commit(batch.positions)
        self.non_finite.count(batch.key, tables.get(Kind.NUMERICS))
        if self.tracer is not None:
            self.tracer.trace(batch.key, clock, tables)
        for tail in batch.ended:
            tail.drained = tail.reported and tail.next_seq > tail.reader.head

    def _tables(self, batch: Batch, clock: ClockPair) -> Tables:
        key, tables = batch.key, batch.tables
        tables |= self.readings.tables(watched(batch.tails, self.exits))
        readers = [tail.reader for tail in batch.tails]
        self.stalls.inspect(key, readers, tables.get(Kind.STEP))
        tables |= self.stalls.collect(key)
        lines = self.ended_ranks.rows(batch.tails, batch.ended, clock.monotonic_ns)
        if len(lines):
            tables[Kind.LAST_LINE] = lines
        tables[Kind.AGENT] = self_report(self.options, self.pace, self.spool, clock)
        return tables

    def _report_checkpoints(self) -> None:
        """Spool new verifications; their attempts may have ended, with all their rings."""
        if self.checkpoints is None:
            return
        for key, rows in self.checkpoints.collect().items():
            try:
                self.spool.put(key, ClockPair.now(self.clock), {Kind.VERIFICATION: rows})
            except (OSError, SegmentError) as error:
                self.errors.count(error)
                self.checkpoints.put_back(key, rows)

    def _job_checkpoints(self) -> JobCheckpoints | None:
        options = self.options.checkpoints
        if options is None:
            return None
        return JobCheckpoints(self.options.spool_dir / CHECKPOINTS, options, self.clock)

    def _report_node(self) -> None:
        now, away = ClockPair.now(self.clock), self.relay.link == AWAY
        self.node_report.update(
            self.readings.node_facts(),
            lambda: self_report(self.options, self.pace, self.spool, now),
            now,
            collector_away=away,
        )

    def _ended_rings(self) -> EndedRings:
        self.tail.ended = EndedRings(
            self.options.ring_dir,
            RingCopies(self.options.spool_dir / COPIES),
            self.clock,
            self.spool.acknowledged,
            self._forget_ring,
            self.tail.localise,
            self.errors,
        )
        return self.tail.ended

    def _forget_ring(self, ring_id: int, next_seq: int) -> None:
        """Forget a removed ring, but keep its position in memory.

        The rank may still live and make the same ring again.
        """
        self.spool.forget_ring(ring_id)
        self.tail.cursors[ring_id] = next_seq

    def _points(self) -> list[Point]:
        return points_of(self.readings, self.readings.facts.present())

    def _close_telemetry(self) -> None:
        for exporter in (self.tracer, self.metrics):
            if exporter is not None:
                exporter.close()

    def _serve(self, port: int) -> WSGIServer:
        options = self.options
        token = options.metrics_token
        opened = places.listen(options.host, port, token is not None, "--metrics-token-file")
        health = Health(self, options.spool_dir)
        return serve(opened, Application(make_wsgi_app(self.registry), health, token))
