"""The collector as a process: a socket, a web server and the evaluation thread."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.store.database import open_database
from stepwatch.collector.store.holders import new_holder
from stepwatch.collector.store.leases import Leases
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.collector.store.upkeep.payloads import Payloads
from stepwatch.collector.store.upkeep.removal import Keep
from stepwatch.collector.store.upkeep.retention import Retention
from stepwatch.collector.web.access import PublicNames, TokenFiles, Tokens
from stepwatch.collector.web.access.certificate import Certificate
from stepwatch.collector.web.access.rereading import follow
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.connections import (
    Connection,
    Listener,
    Seldom,
    Table,
    TimedProtocol,
    connections_allowed,
)
from stepwatch.collector.web.live import Hub
from stepwatch.collector.web.profiles import IncidentProfiles
from stepwatch.collector.web.runbooks.view import ReadRunbook
from stepwatch.signals.errors import StepwatchError

if TYPE_CHECKING:
    from stepwatch.collector.web.otlp.export import JobMetricsSender


def open_store(place: str) -> Store:
    """Open the store at a path or an SQLAlchemy URL.

    Raises:
        StoreError: the store cannot be opened.
    """
    return Store(place) if "://" in place else Store.sqlite(Path(place))


def leases_of(store: Store) -> Leases:
    """Return this process's leases, with separate connections: slow queries do not delay them."""
    return Leases(open_database(store.engine.url), new_holder())


STREAM_SECONDS = 0.5
"""Time for the clients of event streams to read the end."""


class _Server(uvicorn.Server):
    """Limits its connections, and remembers a SIGINT.

    uvicorn sometimes loses the SIGINT that it re-raises at the end.
    """

    interrupted = False

    def __init__(self, config: uvicorn.Config, table: Table, hub: Hub) -> None:
        super().__init__(config)
        self._table, self._hub = table, hub

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on `sockets`, with `Listener` instead of uvicorn's own loop."""
        await self.lifespan.startup()
        context, table = self.config.ssl, self._table

        def make_protocol(connection: Connection) -> TimedProtocol:
            return TimedProtocol(self.config, self.server_state, table, connection)

        self.servers = [
            Listener(opened_socket, table, make_protocol, context)  # type: ignore[misc]
            for opened_socket in sockets or ()
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams at once, then wait for all other answers."""
        self._hub.close()
        asyncio.get_running_loop().call_later(STREAM_SECONDS, self._abort_streams)
        await super().shutdown(sockets)

    def _abort_streams(self) -> None:
        """Close event streams whose clients do not read."""
        for protocol in [*self.server_state.connections]:
            if isinstance(protocol, TimedProtocol) and protocol.is_endless:
                protocol.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.interrupted |= sig == signal.SIGINT
        super().handle_exit(sig, frame)


def _in_force(files: TokenFiles | None) -> Callable[[], Tokens] | None:
    return None if files is None else lambda: files.tokens


def _configured(application: ASGIApp, certificate: Certificate | None) -> uvicorn.Config:
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        lifespan="off",
        http="h11",
        ws="none",
        log_config=None,  # its lines have the form of all others
    )
    config.load()
    for name in ("uvicorn.error", "asyncio", Listener.__module__):
        logging.getLogger(name).addFilter(Seldom())
    if certificate is not None:
        config.ssl = certificate.context  # a context that can load another certificate later
    return config


def serve(
    service: Service,
    opened: socket.socket,
    interval: float,
    *,
    tokens: TokenFiles | None = None,
    certificate: Certificate | None = None,
    runbook: ReadRunbook | None = None,
    keep: Keep | None = None,
    compaction: Compaction | None = None,
    payloads: Payloads | None = None,
    names: Collection[str] = (),
    otlp: JobMetricsSender | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then close everything.

    `keep` sets the retention, `compaction` the bundling of segments, `payloads` their object store.
    With `tokens`, data access requires one; with `certificate`, only TLS is accepted. Both are
    reread when they change. `names` are the host names that browsers use: without `tokens` all
    others are refused. `otlp` sends job metrics.

    Raises:
        KeyboardInterrupt: the signal was SIGINT.
        StepwatchError: the evaluation thread died; a collector that no longer evaluates must not
            look alive.
    """
    public = PublicNames(frozenset(name.lower() for name in names), only=tokens is None)
    table = Table(connections_allowed(tls=certificate is not None))
    hub = Hub(service, table.most // 2)  # agents have the other half of the connections
    api = make_api(service, _in_force(tokens), runbook, public, table, otlp, hub)
    server = _Server(_configured(api, certificate), table, hub)
    failed = threading.Event()
    failed.set()

    def evaluate() -> None:
        try:
            service.run(interval)
            failed.clear()
        finally:
            server.should_exit = True

    evaluation = threading.Thread(target=evaluate, name="evaluate")
    evaluation.start()
    stopping = threading.Event()
    retention = Retention(service.store.engine, stopping.wait, service.store.upkeep)
    removal = threading.Thread(
        target=retention.run, args=(keep or Keep(), service.clock), name="retention"
    )
    removal.start()
    compactor = Compactor(service.store.engine, stopping.wait, service.store.upkeep, payloads)
    compacting = threading.Thread(
        target=compactor.run, args=(compaction or Compaction(), service.clock), name="compaction"
    )
    compacting.start()
    profiles = IncidentProfiles(service)
    profiling = threading.Thread(target=profiles.run, args=(stopping.wait,), name="profiles")
    profiling.start()
    refresh = [reloadable.refresh for reloadable in (tokens, certificate) if reloadable is not None]
    rereading = threading.Thread(target=follow, args=(refresh, stopping.wait), name="rereading")
    rereading.start()
    if otlp is not None:
        otlp.start()
    try:
        server.run(sockets=[opened])
    finally:
        service.stop()
        stopping.set()
        if otlp is not None:
            otlp.close()
        evaluation.join()
        removal.join()
        compacting.join()
        profiling.join()
        rereading.join()
        service.store.close()
    if server.interrupted:
        raise KeyboardInterrupt
    if failed.is_set():
        raise StepwatchError("the evaluation ended in an error, see the log; start it again")
