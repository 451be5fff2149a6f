"""Packets between the agent and a process of probes, on a socket that keeps their bounds.

The agent's first packet is {"folders": [path, ...], "probes": [recipe, ...]}: the folders of probe
modules, and the probes by number from 0. The next ones are {"read": [number, ...], "ranks": text},
or {} to go on beside a read that hangs. A packet of the process holds frames, each a number, a
length and that many bytes: a probe's answer, or with the number `READY` a JSON object of the
reasons why probes cannot be built.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MOST_BYTES = 1 << 16
"""Maximum size of the agent's packets."""
MOST_ANSWER_BYTES = 1 << 17
"""Maximum size of an answer: the largest has 26 KiB of devices and 77 KiB of facts. The kernel's
default limit for a packet is 208 KiB."""
READY = 0xFFFF_FFFF
_HEAD = struct.Struct("<II")


def frame(number: int, data: bytes) -> bytes:
    """Return one frame."""
    return _HEAD.pack(number, len(data)) + data


def frames(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each frame's number and data."""
    place = 0
    while place + _HEAD.size <= len(packet):
        number, size = _HEAD.unpack_from(packet, place)
        place += _HEAD.size
        yield number, packet[place : place + size]
        place += size
