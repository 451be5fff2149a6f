"""Disk and file server latency from kernel counters; pure except for the kept readings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact

_MILLISECONDS = 1000
_PARTITION = re.compile(r"^(?:loop|ram|zram|sr|fd)\d|^(?:sd|vd|xvd|hd)[a-z]+\d+$|p\d+$")
"""Block device names that are not disks: a partition's requests count for its disk."""


class Thresholds(NamedTuple):
    """Limits for disks and file servers."""

    least_free_ratio: float = 0.02
    """Share: below this free space a checkpoint fails within hours. ext4 reserves 5 % for root, and
    is full earlier for all others.
    """
    slow_request_seconds: float = 1.0
    """Seconds: an average request this long means that the disk keeps retrying. A request takes 10
    ms on a spinning disk and 0.1 ms on flash.
    """
    stuck_seconds: float = 5.0
    """Seconds: a disk is stuck if requests wait and none completes for this time. nvme gives up
    after 30 s.
    """
    slow_call_seconds: float = 1.0
    """Seconds: an average file server call this long delays every reader."""
    silent_seconds: float = 10.0
    """Seconds: a file server without an answer for this time is silent, not only slow. Lustre and
    NFS clients wait for minutes.
    """
    resent_ratio: float = 0.05
    """Share: the calls that are sent again. TCP is reliable, so a call is sent again only if the
    server did not answer within `timeo` (nfs(5)).
    """
    window_seconds: float = 4.0
    """Seconds: the shortest averaging window for requests."""
    least_requests: int = 4
    """Requests: the fewest for an average."""


LIMITS = Thresholds()
"""The shipped limits."""


class _Requests(NamedTuple):
    """Completed requests, their milliseconds, and pending requests, at one time."""

    at_ns: int
    ended: int
    milliseconds: int
    waiting: int


class DiskLatency:
    """Compare two `/proc/diskstats` readings at least `window_seconds` apart."""

    def __init__(self) -> None:
        self._previous: dict[str, _Requests] = {}
        self._moved_ns: dict[str, int] = {}
        self._sightings: list[Sighting] = []

    def find(self, text: str, now_ns: int) -> list[Sighting]:
        """Return disks that are slow or stuck now.

        Fields are from Documentation/admin-guide/iostats.rst: 4 and 8 are completed requests, 7 and
        11 their milliseconds, 12 the pending requests.

        Raises:
            ValueError: the table has an unexpected format.
        """
        now = dict(_requests(text, now_ns))
        sightings = []
        for disk, current in now.items():
            previous = self._previous.get(disk)
            if previous is None or current.ended != previous.ended or not current.waiting:
                self._moved_ns[disk] = now_ns
            stuck = (now_ns - self._moved_ns[disk]) / NANOSECONDS
            if stuck >= LIMITS.stuck_seconds:
                text = f"{current.waiting} requests wait, and none ended for {stuck:.0f} s"
                sightings.append(Sighting(NodeFact.DISK_SLOW, disk, text))
        begun = min((requests.at_ns for requests in self._previous.values()), default=0)
        if now_ns - begun >= LIMITS.window_seconds * NANOSECONDS:
            self._sightings = [
                sighting
                for disk, current in now.items()
                if disk in self._previous
                for sighting in _slow(disk, self._previous[disk], current)
            ]
            self._previous = now
        return sightings or self._sightings


def _requests(text: str, now_ns: int) -> Iterator[tuple[str, _Requests]]:
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14 or _PARTITION.search(fields[2]):
            continue
        reads, read_ms, writes, write_ms, waiting = (
            int(fields[column]) for column in (3, 6, 7, 10, 11)
        )
        yield fields[2], _Requests(now_ns, reads + writes, read_ms + write_ms, waiting)


def _slow(disk: str, previous: _Requests, current: _Requests) -> Iterator[Sighting]:
    ended, took = current.ended - previous.ended, current.milliseconds - previous.milliseconds
    if ended < LIMITS.least_requests or took < 0:  # a counter that went back was reset
        return
    mean_s = took / ended / _MILLISECONDS
    if mean_s >= LIMITS.slow_request_seconds:
        text = f"{ended} requests took {mean_s:.1f} s each"
        yield Sighting(NodeFact.DISK_SLOW, disk, text)


class _Calls(NamedTuple):
    """Calls to a file server, transmissions, and their milliseconds."""

    ended: int
    sent: int
    milliseconds: int


class ServerLatency:
    """Compare two `/proc/self/mountstats` readings at least `window_seconds` apart."""

    def __init__(self) -> None:
        self._previous: dict[str, _Calls] = {}
        self._at_ns = 0
        self._sightings: list[Sighting] = []

    def find(self, text: str, now_ns: int) -> list[Sighting]:
        """Return file servers that are slow now, by mount point."""
        if now_ns - self._at_ns < LIMITS.window_seconds * NANOSECONDS:
            return self._sightings
        now = parse_calls(text)
        self._sightings = [
            sighting
            for mount, current in now.items()
            if mount in self._previous
            for sighting in _slow_server(mount, self._previous[mount], current)
        ]
        self._previous, self._at_ns = now, now_ns
        return self._sightings


def parse_calls(text: str) -> dict[str, _Calls]:
    """Return each NFS mount's calls, summed over operations.

    A mount begins with `device HOST:/path mounted on /mnt with fstype nfs4 ...`. An operation's
    line is `READ: 10 12 0 1200 5000 3 40 45 0`: calls, transmissions, timeouts, bytes sent and
    received, milliseconds queued, in transit and in total, errors.
    """
    calls: dict[str, _Calls] = {}
    mount, counted = "", False
    for line in text.splitlines():
        words = line.split()
        if line.startswith("device "):
            is_nfs = "fstype" in words and words[words.index("fstype") + 1].startswith("nfs")
            position = words.index("on") + 1 if is_nfs and "on" in words else 0
            mount, counted = (words[position] if position else ""), False
        elif mount and words[:1] == ["per-op"]:
            counted = True
        elif mount and counted and len(words) >= 9 and words[0].endswith(":"):
            numbers = [int(word) if word.isdigit() else 0 for word in words[1:9]]
            total = calls.get(mount, _Calls(0, 0, 0))
            calls[mount] = _Calls(
                total.ended + numbers[0],
                total.sent + numbers[1],
                total.milliseconds + numbers[7],
            )
    return calls


def _slow_server(mount: str, previous: _Calls, current: _Calls) -> Iterator[Sighting]:
    ended, took = current.ended - previous.ended, current.milliseconds - previous.milliseconds
    resent = current.sent - previous.sent - ended
    if ended < LIMITS.least_requests or took < 0:
        return
    mean_s = took / ended / _MILLISECONDS
    if mean_s >= LIMITS.slow_call_seconds or resent >= LIMITS.resent_ratio * ended:
        text = f"{ended} calls took {mean_s:.2f} s each, {max(0, resent)} were sent again"
        yield Sighting(NodeFact.FILE_SERVER_SLOW, mount, text)
