"""A client of event streams over a real connection."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import quote


class Event(NamedTuple):
    """One event; `cursor` is that of the newest event with an id up to it."""

    name: str
    data: dict[str, Any]
    cursor: str
    received_s: float


class Stream:
    """Reads one stream; `events` are those read so far."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self.answer = connection.getresponse()
        self.events: list[Event] = []
        self.cursor = ""

    def next(self) -> Event:
        """Wait for the next event; comments are left out."""
        fields: dict[str, str] = {}
        while True:
            line = self.answer.readline().decode()
            if not line:
                raise EOFError("the stream has ended")
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                self.cursor = fields.get("id", self.cursor)
                data = json.loads(fields["data"])
                event = Event(fields["event"], data, self.cursor, time.monotonic())
                self.events.append(event)
                return event

    def until(self, holds: Callable[[Event], object]) -> Event:
        """Read up to the first event that fits."""
        while True:
            event = self.next()
            if holds(event):
                return event

    def until_jobs(self, jobs: set[str]) -> Event:
        """Read up to the event with which there was one about each of the jobs."""
        return self.until(lambda _: jobs <= {event.data.get("job") for event in self.events})

    def until_live(self, step: int) -> Event:
        """Read up to a live document at a step."""
        return self.until(lambda event: event.name == "live" and event.data["step"] == step)

    def patience(self, seconds: float) -> None:
        """Let `next` raise `TimeoutError` after a silence."""
        self._connection.sock.settimeout(seconds)


def address(*topics: str, cursor: str = "") -> str:
    query = "&".join(f"topic={quote(topic)}" for topic in topics)
    return f"/v1/events?{query}" + (f"&cursor={cursor}" if cursor else "")


@contextmanager
def opened(
    port: int, *topics: str, cursor: str = "", headers: Mapping[str, str] | None = None
) -> Iterator[Stream]:
    """An open stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120.0)
    try:
        connection.request("GET", address(*topics, cursor=cursor), headers=dict(headers or {}))
        stream = Stream(connection)
        assert stream.answer.status == 200, stream.answer.read()
        assert stream.answer.getheader("content-type") == "text/event-stream; charset=utf-8"
        yield stream
    finally:
        connection.close()
