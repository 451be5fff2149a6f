"""The `disk` probe: full or read-only file systems, slow disks and file servers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.probe import Probe, ProbeContext
from stepwatch.signals.clock import Clock
from stepwatch.signals.records import Kind, NodeFact, Values

from .latency import LIMITS, DiskLatency, ServerLatency
from .mounts import MAX_MOUNTS, Mount, parse_mounts
from .waiting import Impatient, Reply


class DiskProbe(Probe):
    """Read the mounts in this mount namespace; `proc` is the `/proc` path.

    Each file server is queried in its own thread, so that a stuck one does not delay the others.
    """

    name = "disk"
    kind = Kind.NODE_FACT
    expendable = False
    every_seconds = 5.0  # requests are averaged over four seconds

    def __init__(
        self,
        clock: Clock,
        proc: Path = Path("/proc"),
        statvfs: Callable[[str], os.statvfs_result] = os.statvfs,
    ) -> None:
        self._clock = clock
        self._proc = proc
        self._statvfs = statvfs
        self._servers = Impatient(statvfs, clock)
        self._writable: set[str] = set()
        self._disks = DiskLatency()
        self._calls = ServerLatency()
        self._sightings: list[Sighting] = []
        self._files = KernelFiles()
        self._table, self._mounts = "", list[Mount]()

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        return cls(context.clock, context.proc)

    def supported(self) -> bool:
        """Return whether the kernel lists its mounts."""
        return (self._proc / "self" / "mountinfo").exists()

    def read(self) -> list[Values]:
        """Return no rows: the results are facts.

        Raises:
            OSError: the mounts cannot be listed.
            ValueError: a kernel table has an unexpected format.
        """
        now = self._clock.monotonic_ns()
        mounts = self._mounted()
        sightings = [sighting for mount in mounts for sighting in self._of_mount(mount)]
        sightings += self._disks.find(self._text("diskstats"), now)
        if any(mount.is_nfs for mount in mounts):
            sightings += self._calls.find(self._text("self/mountstats"), now)
        self._sightings = sightings
        return []

    def facts(self) -> list[Sighting]:
        """Return the newest read's facts."""
        return self._sightings

    def _mounted(self) -> list[Mount]:
        """Return the mounts; the table is parsed again only if it changed."""
        table = self._text("self/mountinfo")
        if table != self._table:
            self._table, self._mounts = table, parse_mounts(table)[:MAX_MOUNTS]
        return self._mounts

    def _of_mount(self, mount: Mount) -> Iterator[Sighting]:
        if mount.is_writable:
            self._writable.add(mount.path)
        elif mount.path in self._writable:
            text = f"{mount.kind} at {mount.path} was writable and is mounted read-only"
            yield Sighting(NodeFact.READ_ONLY, mount.path, text)
            return
        else:
            return  # read-only from the start, as images are
        if mount.is_remote:
            yield from _of_server(mount, self._servers.ask(mount.path))
            return
        with contextlib.suppress(OSError):  # the file system was unmounted meanwhile
            yield from _fullness(mount, self._statvfs(mount.path))

    def _text(self, name: str) -> str:
        return self._files.text(f"{self._proc}/{name}")


def _of_server(mount: Mount, reply: Reply) -> Iterator[Sighting]:
    """Yield a file server's faults (slow, silent, error) and its space."""
    server = f"{mount.kind} from {mount.source}"
    if isinstance(reply.answer, OSError):
        text = f"{server}: {reply.answer.strerror or reply.answer}"
        yield Sighting(NodeFact.FILE_SERVER_SILENT, mount.path, text)
    elif reply.answer is None and reply.seconds >= LIMITS.silent_seconds:
        text = f"{server}: no answer for {reply.seconds:.0f} s"
        yield Sighting(NodeFact.FILE_SERVER_SILENT, mount.path, text)
    elif reply.seconds >= LIMITS.slow_call_seconds:
        text = f"{server}: one answer takes {reply.seconds:.1f} s"
        yield Sighting(NodeFact.FILE_SERVER_SLOW, mount.path, text)
    if isinstance(reply.answer, os.statvfs_result):
        yield from _fullness(mount, reply.answer)


def _fullness(mount: Mount, volume: os.statvfs_result) -> Iterator[Sighting]:
    for unit, free, total in (
        ("bytes", volume.f_bavail, volume.f_blocks),
        ("inodes", volume.f_favail, volume.f_files),
    ):
        if total > 0 and free < LIMITS.least_free_ratio * total:
            text = f"{100 * free / total:.1f} % of the {unit} of {mount.path} are free"
            yield Sighting(NodeFact.DISK_FULL, mount.path, text)
            return
