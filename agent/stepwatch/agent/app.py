"""The agent as one object: a reading loop, a sending thread, and `/metrics`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry, start_http_server

from stepwatch.agent.deaths import Death, Deaths
from stepwatch.agent.exporter import NodeExporter
from stepwatch.agent.probes import Probe, Rows
from stepwatch.agent.probes.host import HostProbe
from stepwatch.agent.probes.nic import NicProbe
from stepwatch.agent.probes.nvml import NvmlProbe, assigned
from stepwatch.agent.probes.ranks import RanksProbe
from stepwatch.agent.probes.readings import Readings
from stepwatch.agent.probes.worker import WorkerProbe
from stepwatch.agent.probes.worker.stack import find_py_spy
from stepwatch.agent.relay import Relay
from stepwatch.agent.spool import DEFAULT_LIMIT_BYTES, Spool
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.agent.tail import AttemptKey, RingTail, Tail, watched
from stepwatch.agent.traces.tracer import TraceOptions, Tracer
from stepwatch.signals.clock import Clock, ClockPair, SystemClock
from stepwatch.signals.errors import ConfigurationError, SegmentError
from stepwatch.signals.records import Kind

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentOptions:
    """How an agent runs; `port` 0 takes a free one, None exports nothing."""

    ring_dir: Path
    spool_dir: Path
    collector: str
    node: str
    port: int | None = 0
    token: str | None = None
    poll_seconds: float = 0.25
    pack_seconds: float = 1.0
    spool_limit_bytes: int = DEFAULT_LIMIT_BYTES
    traces: TraceOptions | None = None


class Agent:
    """Reads, spools and sends until `stop` is called.

    Raises:
        ConfigurationError: the spool, the port or the collector's URL cannot be used.
    """

    def __init__(self, options: AgentOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.node = options.node
        self.clock = clock or SystemClock()
        self.spool = Spool(options.spool_dir, options.node, options.spool_limit_bytes)
        self.tail = Tail(options.ring_dir, self.spool.cursors())
        self.deaths = Deaths(self.clock)
        self.worker = WorkerProbe(self.clock, find_py_spy())
        self.relay = Relay(self.spool, _client(options))
        self.tracer = _tracer(options)
        self.host: Probe = HostProbe(self.clock, ranks=self._rank_pids)
        self.nic: Probe = NicProbe(self.clock)
        self.nvml = NvmlProbe(self.clock)
        self.readings = Readings()
        self.steps: dict[str, list[int]] = {}
        self.sender = SupervisedThread("relay", self._send_forever, self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(NodeExporter(self))
        self.port = self._listen(options.port)
        self._stopping = threading.Event()
        self._more = threading.Event()
        self._read_last = threading.Event()

    def run(self) -> None:
        """Work until stopped; then read and send once more, for at most a few seconds."""
        self.sender.start()
        rounds_per_pack = max(1, round(self.options.pack_seconds / self.options.poll_seconds))
        count = 0
        while not self._stopping.wait(self.options.poll_seconds):
            self.sender.check()
            self.look()
            count += 1
            if count % rounds_per_pack == 0:
                self.pack()
        try:
            self.look()
            self.pack()
        finally:
            self._read_last.set()
        self._close_tracer()
        if self.sender.join(3.0):
            self.close()

    def close(self) -> None:
        """Let go of the spool, the driver, the connections and the processes that were watched."""
        self._close_tracer()
        self.deaths.close()
        for probe in (self.host, self.nic, self.nvml):
            probe.close()
        self.relay.client.close()
        self.spool.close()

    def _close_tracer(self) -> None:
        if self.tracer is not None:
            self.tracer.close()

    def stop(self) -> None:
        """Ask `run` to finish; safe in a signal handler."""
        self._stopping.set()
        self._more.set()

    def look(self) -> None:
        """Find new rings and watch over the processes behind them."""
        self.tail.discover()
        identities = self.tail.identities()
        for who in identities:
            self.deaths.watch(who.ring_id, who.pid, who.process_start)
        self.deaths.forget({who.ring_id for who in identities})

    def pack(self) -> None:
        """Write what is new into one segment per attempt."""
        node = {probe.kind: self.readings.read(probe) for probe in (self.host, self.nic, self.nvml)}
        devices = node[Kind.DEVICE]
        owners = self.nvml.owners() if devices is not None else {}
        attempts = self.tail.attempts()
        for key, tails in attempts.items():
            if devices is not None:
                ranks = {tail.reader.identity.pid: tail.reader.identity.rank for tail in tails}
                node[Kind.DEVICE] = assigned(devices, owners, ranks)
            self._pack_attempt(key, tails, node)
        self.worker.forget(set(attempts), {who.ring_id for who in self.tail.identities()})
        self.steps = _steps_by_job(attempts)
        self.tail.forget_missing()
        self._more.set()

    def _pack_attempt(
        self, key: AttemptKey, tails: list[RingTail], node: Mapping[Kind, Rows | None]
    ) -> None:
        now = self.clock.monotonic_ns()
        ended = [tail for tail in tails if tail.ended(now, self._death(tail))]
        positions = self.tail.positions(tails)
        tables = self.tail.read(tails)
        states = self.readings.read(RanksProbe(self.clock, lambda: watched(tails, self.deaths)))
        for kind, rows in ((Kind.RANK_STATE, states), *node.items()):
            if rows is not None and len(rows):
                tables[kind] = rows
        clock = ClockPair.now(self.clock)
        self.worker.look(key, [tail.reader for tail in tails], tables.get(Kind.STEP))
        tables.update(self.worker.take(key))
        try:
            self.spool.put(key, clock, tables)
        except (OSError, SegmentError) as error:
            self.tail.rewind(positions)
            logger.warning("cannot spool (%s); records wait in the rings", error)
            return
        self.tail.commit(positions)
        if self.tracer is not None:
            self.tracer.take(key, clock, tables)
        for tail in ended:
            tail.settled = tail.next_seq > tail.reader.head

    def _death(self, tail: RingTail) -> Death | None:
        return self.deaths.of(tail.reader.identity.ring_id)

    def _rank_pids(self) -> set[int]:
        tails = (tail for each in self.tail.attempts().values() for tail in each)
        return {tail.reader.identity.pid for tail in tails}

    def _send_forever(self) -> None:
        while not self._stopping.is_set():
            self._more.wait(1.0)
            self._more.clear()
            self.relay.drain(self._stopping.wait)
        self._read_last.wait()  # or the last segment would stay until an agent runs here again
        self.relay.drain(lambda _: True)

    def _listen(self, port: int | None) -> int | None:
        if port is None:
            return None
        try:
            server, _ = start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on port {port}: {error.strerror}; pass another --port"
            ) from error
        return int(server.server_port)


def _tracer(options: AgentOptions) -> Tracer | None:
    wanted = options.traces
    if wanted is None:
        return None
    try:
        from stepwatch.agent.traces.export import Exporter  # the SDK costs memory: only if asked

        return Tracer(options.node, Exporter(wanted.endpoint), wanted.every)
    except ConfigurationError as error:
        if wanted.endpoint is not None:
            raise
        # The variables may be meant for others on this node.
        logger.warning("no traces: %s", error)
        return None


def _client(options: AgentOptions) -> httpx.Client:
    headers = {"authorization": f"Bearer {options.token}"} if options.token else {}
    try:
        client = httpx.Client(base_url=options.collector, headers=headers, timeout=10.0)
    except httpx.InvalidURL as error:
        raise ConfigurationError(
            f"{options.collector!r} is not a URL ({error}); pass --collector http://HOST:PORT"
        ) from error
    if client.base_url.scheme not in ("http", "https") or not client.base_url.host:
        raise ConfigurationError(
            f"{options.collector!r} is not a URL; pass --collector http://HOST:PORT"
        )
    return client


def _steps_by_job(attempts: Mapping[AttemptKey, list[RingTail]]) -> dict[str, list[int]]:
    steps: dict[str, list[int]] = {}
    for key, tails in attempts.items():
        steps.setdefault(key.job, []).extend(tail.reader.live().step for tail in tails)
    return steps
