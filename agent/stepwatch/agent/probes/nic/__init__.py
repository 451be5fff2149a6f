"""The `nic` probe: counters per network interface and for TCP, from `/sys` and `/proc`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from stepwatch.agent.kernel_files import KernelFiles
from stepwatch.agent.probes.probe import Gauge, Probe, ProbeContext
from stepwatch.signals import names
from stepwatch.signals.clock import Clock
from stepwatch.signals.records import UNKNOWN_FLOAT, Kind, Values, unknown_values

if TYPE_CHECKING:
    from stepwatch.signals.wire import Rows

MAX_INTERFACES = 32
"""Maximum number of interfaces, the first by name; each container adds one."""
MEGABIT = 1_000_000
_PARTS = {
    "received_bytes": ("statistics/rx_bytes",),
    "sent_bytes": ("statistics/tx_bytes",),
    "errors": ("statistics/rx_errors", "statistics/tx_errors"),
    "drops": ("statistics/rx_dropped", "statistics/tx_dropped"),
    "carrier_changes": ("carrier_changes",),
}


def parse_snmp(text: str, protocol: str) -> dict[str, int]:
    """Return one protocol's counters in `/proc/net/snmp`: a names line, then a values line."""
    lines = [line.split() for line in text.splitlines() if line.startswith(f"{protocol}:")]
    if len(lines) < 2 or len(lines[0]) != len(lines[1]):
        return {}
    pairs = zip(lines[0][1:], lines[1][1:], strict=True)
    return {name: int(value) for name, value in pairs if value.lstrip("-").isdigit()}


class NicProbe(Probe):
    """Read this node's interfaces except loopback; `sys` and `proc` are the paths to read."""

    name = "nic"
    kind = Kind.NIC
    every_seconds = 2.0  # counters

    def __init__(self, clock: Clock, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        self._clock = clock
        self._interfaces = f"{sys}/class/net"
        self._snmp = f"{proc}/net/snmp"
        self._files = KernelFiles()

    @classmethod
    def build(cls, context: ProbeContext) -> Self:
        """Build this node's probe."""
        return cls(context.clock, context.sys, context.proc)

    def supported(self) -> bool:
        """Return whether the kernel lists its interfaces."""
        return os.path.isdir(self._interfaces)

    def read(self) -> list[Values]:
        """Return one record per interface, and one with an empty name for TCP.

        Raises:
            OSError: the interfaces cannot be listed.
        """
        names = sorted(name for name in os.listdir(self._interfaces) if name != "lo")
        names = names[:MAX_INTERFACES]
        now = self._clock.monotonic_ns()
        rows = [unknown_values(Kind.NIC, time_ns=now) for _ in range(len(names) + 1)]
        for row, interface in zip(rows, names, strict=False):
            folder = f"{self._interfaces}/{interface}"
            row["interface"] = interface.encode()[:16]
            for name, files in _PARTS.items():
                row[name] = sum(self._number(f"{folder}/{file}") for file in files)
            speed = self._number(f"{folder}/speed")
            row["speed_bits_per_second"] = speed * MEGABIT if speed > 0 else UNKNOWN_FLOAT
        self._fill_tcp(rows[-1])
        return rows

    def gauges(self, rows: Rows) -> Iterator[Gauge]:
        """Yield each interface's bytes and faults, and TCP retransmits."""
        for row in rows:
            interface = row["interface"].decode(errors="replace")
            if not interface:
                retransmits = float(row["tcp_retransmits"])
                yield Gauge(names.NODE_TCP_RETRANSMITS, (), retransmits)
                continue
            for direction in ("received", "sent"):
                count = float(row[f"{direction}_bytes"])
                yield Gauge(names.NODE_NETWORK_BYTES, (interface, direction), count)
            for fault in ("errors", "drops", "carrier_changes"):
                kind = fault.replace("_", "-")
                yield Gauge(names.NODE_NETWORK_FAULTS, (interface, kind), float(row[fault]))

    def _fill_tcp(self, row: Values) -> None:
        try:
            counters = parse_snmp(self._files.text(self._snmp), "Tcp")
        except OSError:
            return
        row["tcp_sent_segments"] = counters.get("OutSegs", UNKNOWN_FLOAT)
        row["tcp_retransmits"] = counters.get("RetransSegs", UNKNOWN_FLOAT)

    def _number(self, file: str) -> float:
        """Return a file's number; NaN if there is none, such as the speed of a down interface."""
        try:
            return float(int(self._files.word(file)))
        except (OSError, ValueError):
            return UNKNOWN_FLOAT
