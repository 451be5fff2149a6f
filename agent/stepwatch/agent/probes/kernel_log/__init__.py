"""The `kernel-log` probe: what the kernel says of devices, memory, disks and network cards."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Self

import numpy as np

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import DEFAULT_KERNEL_LOG, Probe, ProbeContext
from stepwatch.signals.records import DTYPES, Kind
from stepwatch.signals.wire import Rows

from .messages import Message, parse, sighting_of

MAX_MESSAGES = 5_000
"""Messages read at once; what a storm writes beyond it is read the next time."""
_LONGEST = 8192
"""The kernel's own bound on a record (`PRINTK_MESSAGE_MAX` and what it adds)."""


class KernelLogProbe(Probe):
    """Reads `/dev/kmsg` from the oldest message that the kernel still has.

    The book of facts leaves out what is long over, so an agent that was restarted knows of an error
    a minute ago. It needs CAP_SYSLOG where `kernel.dmesg_restrict` is set.
    """

    name = "kernel-log"
    kind = Kind.NODE_FACT
    expendable = False

    def __init__(self, file: Path = DEFAULT_KERNEL_LOG) -> None:
        self._file = file
        self._opened: int | None = None
        self._sightings: list[Sighting] = []
        self._remainder = b""

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Make the probe of this node."""
        return cls(context.kernel_log)

    def supported(self) -> bool:
        """Whether the kernel's log is there: containers have none, unless it is given to them."""
        return self._file.exists()

    def read(self) -> Rows:
        """No rows: what it finds are facts.

        Raises:
            OSError: the log may not be read, with what would permit it.
        """
        if self._opened is None:
            try:
                self._opened = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except PermissionError as error:
                raise OSError(
                    f"{self._file} may not be read: give the agent CAP_SYSLOG, or run it as root"
                ) from error
        self._sightings = _joined(self._messages(self._opened))
        return np.zeros(0, dtype=DTYPES[Kind.NODE_FACT])

    def facts(self) -> list[Sighting]:
        """What the messages since the read before say, each once with how often."""
        return self._sightings

    def close(self) -> None:
        """Close the log."""
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def _messages(self, opened: int) -> list[Message]:
        messages: list[Message] = []
        for _ in range(MAX_MESSAGES):
            try:
                data = os.read(opened, _LONGEST)
            except BlockingIOError:  # there is no further one
                break
            except BrokenPipeError:  # overwritten before it was read: the next is the oldest
                continue
            if not data:  # a plain file stands for the log
                break
            # The kernel hands out one whole record; of a plain file, the end of one may be missing.
            complete, newline, remainder = (self._remainder + data).rpartition(b"\n")
            self._remainder = remainder[:_LONGEST]
            messages += [
                message
                for line in _records(complete + newline)
                if (message := parse(line)) is not None
            ]
        return messages


def _records(data: bytes) -> list[bytes]:
    """The first line of each record; one that begins with a blank names a record's device."""
    return [line for line in data.split(b"\n") if line and not line.startswith(b" ")]


def _joined(messages: list[Message]) -> list[Sighting]:
    """One sighting of each thing, with how often it happened; its newest words stand."""
    newest: dict[tuple[int, str, int], Sighting] = {}
    counts: Counter[tuple[int, str, int]] = Counter()
    for message in messages:
        sighting = sighting_of(message)
        if sighting is None:
            continue
        key = (sighting.fact, sighting.subject, sighting.code)
        counts[key] = 0 if sighting.over else counts[key] + 1
        newest.pop(key, None)  # so that they are in the order of what came last
        newest[key] = sighting
    return [sighting._replace(happened=counts[key]) for key, sighting in newest.items()]
