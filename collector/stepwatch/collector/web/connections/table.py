"""All open connections by peer, and the choice of one to close for a new one."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from enum import Enum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from stepwatch.signals import names


class Stage(Enum):
    """The event that a connection waits for."""

    HEAD = "the client, to send the head of a request"
    BODY = "the client, to send the body"
    ANSWER = "the collector, or the client to read the answer"
    DISCARD = "the client, to end a body that was answered already"


class Connection:
    """One connection: its peer, stage, deadline (loop time), and close function."""

    __slots__ = ("close", "due", "peer", "stage")

    def __init__(self, peer: str, close: Callable[[], object]) -> None:
        self.peer, self.close = peer, close
        self.stage = Stage.HEAD
        self.due = 0.0


class _Peer:
    """One peer's connections by stage, longest in the stage first."""

    def __init__(self) -> None:
        self.size = 0
        self.stages: dict[Stage, dict[Connection, None]] = {stage: {} for stage in Stage}

    def oldest(self) -> Connection | None:
        """Return the connection to close: an idle one, else one with an incomplete request."""
        for stage in (Stage.DISCARD, Stage.HEAD, Stage.BODY):
            for connection in self.stages[stage]:
                return connection
        return None


class Table:
    """At most `most` connections; a Prometheus collector.

    `closed` counts connections that were refused, evicted, or overdue. Peers have no fixed share,
    because all agents at a site may use one proxy: when the table is full, the peer with the most
    connections loses one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.closed = 0
        self._peers: dict[str, _Peer] = {}
        self._sizes: dict[int, dict[_Peer, None]] = {}
        """Peers by connection count: a full table looks them up at every accept."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        """Whether a new connection requires closing another one."""
        return self._count >= self.most

    def add(self, connection: Connection, due: float) -> None:
        """Add a connection that has sent nothing yet."""
        connection.stage, connection.due = Stage.HEAD, due
        peer = self._peers.setdefault(connection.peer, _Peer())
        peer.stages[Stage.HEAD][connection] = None
        self._resize(peer, 1)

    def move(self, connection: Connection, stage: Stage, due: float) -> None:
        """Move a connection to a stage, possibly its current one, with deadline `due`."""
        peer = self._peers.get(connection.peer)
        if peer is None or connection not in peer.stages[connection.stage]:
            return
        del peer.stages[connection.stage][connection]
        connection.stage, connection.due = stage, due
        peer.stages[stage][connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is present."""
        peer = self._peers.get(connection.peer)
        if peer is None or connection not in peer.stages[connection.stage]:
            return
        del peer.stages[connection.stage][connection]
        self._resize(peer, -1)
        if not peer.size:
            del self._peers[connection.peer]

    def end(self, connection: Connection) -> None:
        """Close and remove a connection, and count it."""
        self.closed += 1
        self.remove(connection)
        connection.close()

    def make_room(self) -> Connection | None:
        """Close the oldest idle connection of the peer with the most connections.

        Returns the closed one, or None if all wait for the collector.
        """
        for size in sorted(self._sizes, reverse=True):
            for peer in self._sizes[size]:
                connection = peer.oldest()
                if connection is not None:
                    self.end(connection)
                    return connection
        return None

    def overdue(self, now: float) -> list[Connection]:
        """Return the connections past their deadline."""
        return [connection for connection in self._all() if connection.due <= now]

    def collect(self) -> Iterator[Metric]:
        """Yield the open and closed connection counts."""
        is_open, closed = names.COLLECTOR_CONNECTIONS, names.COLLECTOR_CONNECTIONS_CLOSED
        yield GaugeMetricFamily(is_open.name, is_open.help, value=self._count)
        yield CounterMetricFamily(closed.name, closed.help, value=self.closed)

    def _resize(self, peer: _Peer, change: int) -> None:
        alike = self._sizes.get(peer.size, {})
        alike.pop(peer, None)
        if not alike:
            self._sizes.pop(peer.size, None)
        peer.size += change
        self._count += change
        if peer.size:
            self._sizes.setdefault(peer.size, {})[peer] = None

    def _all(self) -> Iterator[Connection]:
        for peer in self._peers.values():
            for connections in peer.stages.values():
                yield from connections


def peer_of(address: tuple[object, ...]) -> str:
    """Return a peer's id: an IPv4 address, or the 64-bit prefix that an IPv6 host gets."""
    try:
        ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
    except (IndexError, ValueError):
        return ""
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, 64), strict=False))
