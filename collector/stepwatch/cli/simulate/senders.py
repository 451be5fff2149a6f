"""Connections to the collector: each sends some nodes' segments in order."""

from __future__ import annotations

import threading
import time

from stepwatch.agent.relay.relay import Relay
from stepwatch.signals.errors import StepwatchError
from stepwatch.signals.http import Client
from stepwatch.signals.presence import CONNECTED

from .outbox import Outbox

LIMIT_BYTES = 256 << 20
"""Most bytes waiting in memory, over all connections."""
_SLICE_SECONDS = 0.1


class Sender:
    """One connection: a queue, the relay that empties it, and its thread."""

    def __init__(self, client: Client, limit_bytes: int, limit_segments: int) -> None:
        self.outbox = Outbox(limit_bytes, limit_segments)
        self.relay = Relay(self.outbox, client)
        self.thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self.ends = self.gives_up = False

    def _run(self) -> None:
        while not self.gives_up and not (self.ends and not len(self.outbox)):
            self.outbox.wait(_SLICE_SECONDS)
            self.relay.drain(self._pause)

    def _pause(self, seconds: float) -> bool:
        """Sleep between two tries; return whether to give up."""
        until = time.monotonic() + seconds
        while (remaining_s := until - time.monotonic()) > 0 and not self.gives_up:
            time.sleep(min(remaining_s, _SLICE_SECONDS))
        return self.gives_up


class Senders:
    """`connections` senders; nodes that flush together always share one.

    Each holds at most `limit_segments`, so that no node gets far ahead of the others.
    """

    def __init__(self, client: Client, connections: int, limit_segments: int) -> None:
        limit = LIMIT_BYTES // connections
        self._all = [Sender(client, limit, limit_segments) for _ in range(connections)]

    def __len__(self) -> int:
        return sum(len(sender.outbox) for sender in self._all)

    def connect(self) -> bool:
        """Request the formats that the collector reads; return whether it answers."""
        for sender in self._all:
            sender.relay.ask_formats()
        return all(sender.relay.link == CONNECTED for sender in self._all)

    def start(self) -> None:
        """Start the sending threads."""
        for sender in self._all:
            sender.thread.start()

    def is_full(self, part: int) -> bool:
        """Return whether a part's nodes must wait before they put more segments."""
        return self._sender(part).outbox.is_full

    def put(self, part: int, segments: list[bytes]) -> None:
        """Add segments from the nodes that flush together."""
        self._sender(part).outbox.put(segments)

    def check(self) -> None:
        """Check that every thread is alive.

        Raises:
            StepwatchError: a thread died.
        """
        if not all(sender.thread.is_alive() for sender in self._all):
            raise StepwatchError("a sending thread ended in an error; see above")

    def close(self) -> None:
        """Stop the threads and drop unsent segments."""
        for sender in self._all:
            sender.ends = sender.gives_up = True
        for sender in self._all:
            if sender.thread.ident is not None:
                sender.thread.join()

    @property
    def failed_requests(self) -> int:
        """Requests that the collector refused or did not answer."""
        return sum(sender.relay.failures for sender in self._all)

    @property
    def asked_seconds(self) -> float:
        """The flush interval that the collector requests; 0 if it requests none."""
        return max(sender.relay.asked_seconds for sender in self._all)

    @property
    def repeated(self) -> int:
        """Segments that the collector already had when they were sent again."""
        return sum(sender.relay.repeated for sender in self._all)

    @property
    def refused(self) -> int:
        """Segments that the collector will never accept."""
        return sum(sender.outbox.lost for sender in self._all)

    @property
    def unsent(self) -> int:
        """Segments that the collector has not accepted yet."""
        return len(self) + sum(sender.outbox.held_segments for sender in self._all)

    def _sender(self, part: int) -> Sender:
        return self._all[part % len(self._all)]
