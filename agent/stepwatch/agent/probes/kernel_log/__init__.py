"""The `kernel-log` probe: kernel messages about devices, memory, disks and network cards."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Self

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes.probe import DEFAULT_KERNEL_LOG, Probe, ProbeContext
from stepwatch.signals.records import Kind, Values

from .messages import Message, parse, sighting_of

MAX_MESSAGES = 5_000
"""Maximum number of messages per read; the next read continues after a storm."""
_LONGEST = 8192
"""The kernel's own record limit (`PRINTK_MESSAGE_MAX` plus its prefix)."""


class KernelLogProbe(Probe):
    """Read `/dev/kmsg` from the oldest available message.

    The fact book drops old messages, so a restarted agent still reports an error from a minute ago.
    CAP_SYSLOG is required if `kernel.dmesg_restrict` is set.
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
        """Build this node's probe."""
        return cls(context.kernel_log)

    def supported(self) -> bool:
        """Return whether the kernel log exists: a container has one only if it is mounted."""
        return self._file.exists()

    def read(self) -> list[Values]:
        """Return no rows: the results are facts.

        Raises:
            OSError: the log may not be read; the message names the missing permission.
        """
        if self._opened is None:
            try:
                self._opened = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except PermissionError as error:
                raise OSError(
                    f"{self._file} may not be read: give the agent CAP_SYSLOG, or run it as root"
                ) from error
        self._sightings = _joined(self._messages(self._opened))
        return []

    def facts(self) -> list[Sighting]:
        """Return facts from the messages since the previous read, each once with its count."""
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
            except BlockingIOError:  # no further message
                break
            except BrokenPipeError:  # overwritten before it was read: continue with the oldest
                continue
            if not data:  # a plain file used as the log
                break
            # The kernel returns one whole record; a plain file's last record may be incomplete.
            complete, newline, remainder = (self._remainder + data).rpartition(b"\n")
            self._remainder = remainder[:_LONGEST]
            messages += [
                message
                for line in _records(complete + newline)
                if (message := parse(line)) is not None
            ]
        return messages


def _records(data: bytes) -> list[bytes]:
    """Return each record's first line; a line that begins with a blank names its device."""
    return [line for line in data.split(b"\n") if line and not line.startswith(b" ")]


def _joined(messages: list[Message]) -> list[Sighting]:
    """Merge messages into one sighting per fact, with its count and newest text."""
    newest: dict[tuple[int, str, int], Sighting] = {}
    counts: Counter[tuple[int, str, int]] = Counter()
    for message in messages:
        sighting = sighting_of(message)
        if sighting is None:
            continue
        key = (sighting.fact, sighting.subject, sighting.code)
        counts[key] = 0 if sighting.over else counts[key] + 1
        newest.pop(key, None)  # keeps the order of the newest messages
        newest[key] = sighting
    return [sighting._replace(happened=counts[key]) for key, sighting in newest.items()]
