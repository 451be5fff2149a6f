"""A node whose hardware a test breaks, from the driver's library to what the collector finds.

The probes are the agent's own, with the real binding of the driver; what they read is a compiled
library that follows a script, a file that stands for the kernel's log, and trees of `/proc`, `/sys`
and `/sys/fs/cgroup`. Their facts go through the agent's book, the records and the collector's fold.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.facts.book import FactBook
from stepwatch.agent.isolation.answer import Answer
from stepwatch.agent.isolation.readings import used_devices
from stepwatch.agent.probes import Probe
from stepwatch.agent.probes.container import ContainerProbe
from stepwatch.agent.probes.disk import DiskProbe
from stepwatch.agent.probes.fabric import FabricProbe
from stepwatch.agent.probes.host import HostProbe
from stepwatch.agent.probes.kernel_log import KernelLogProbe
from stepwatch.agent.probes.nvml import NvmlProbe
from stepwatch.agent.probes.probe import RankProcesses
from stepwatch.agent.probes.topology import TopologyProbe
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.node_fault import Fault, detect
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault, NodeFaults
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind
from tests.agent.fake_proc import FILES, Proc
from tests.agent.probes import rows_of
from tests.agent.probes.fabric.made import Cards
from tests.agent.probes.hand_clock import HandClock
from tests.agent.probes.nvml.scripted import Driver
from tests.agent.probes.topology.made import CPUS, Machine, Process
from tests.collector.made import segment, state_rows

PIDS = (41, 42)
"""Processes of ranks 0 and 1, each on the device of its number."""
BUS = 0x3B
MOUNTS = (
    "22 1 259:1 / / {disk} - ext4 /dev/nvme0n1p1 {disk}\n"
    "40 22 0:51 / /data rw - nfs4 10.0.0.7:/export rw\n"
)
DISK = " 259 0 nvme0n1 {ended} 0 8 {milliseconds} 0 0 8 0 {waiting} 0 0 0 0 0 0\n"
CALLS = (
    "device 10.0.0.7:/export mounted on /data with fstype nfs4 statvers=1.1\n"
    "\tper-op statistics\n\t        READ: {calls} {sent} 0 9 9 3 40 {call_ms} 0\n"
)
VMSTAT = (
    "pgmajfault 1\ncompact_fail {compact_fail}\nthp_fault_alloc {huge}\n"
    "thp_fault_fallback {missed}\n"
)
BUDDIES = (
    "Node 0, zone   Normal 9 8 7 6 5 4 3 2 1 0 0\nNode 1, zone   Normal 9 8 7 6 5 4 3 2 1 5 2\n"
)
GROUP = "kubepods/pod-1/trainer"


class Seen(NamedTuple):
    """What the collector knows after a look: the facts that are present, and its findings."""

    faults: list[NodeFault]
    findings: list[Finding]


class FaultyNode:
    """Two sockets with a device and an InfiniBand port each, a disk, a file server, a container."""

    def __init__(self, folder: Path, driver: Driver) -> None:
        self.clock, self.book, self.attempt = HandClock(), FactBook(), Attempt(0)
        self.driver = driver
        for number, device in enumerate(driver.devices):
            device |= {"pci_bus": BUS + number, "recovery": 0, "pid": PIDS[number]}
            device |= {"remapped": 0, "lanes": 16, "lanes_most": 16}
        driver.write()
        self.cards = Cards(folder / "sys")
        self.sys = folder / "sys"
        self.machine = Machine(self.sys)
        (folder / "proc").mkdir()
        self.proc = Proc(folder / "proc")
        self._room: dict[str, os.statvfs_result] = {}
        self._log = folder / "kmsg"
        self._log.touch()
        self._tables: dict[str, object] = {
            "disk": "rw", "ended": 1000, "milliseconds": 5000, "waiting": 0,
            "calls": 100, "sent": 100, "call_ms": 200,
            "periods": 0, "throttled": 0, "high": 0, "oom": 0, "compact_fail": 0,
            "huge": 0, "missed": 0,
        }  # fmt: skip
        self.processes = [
            Process(self.proc.folder, pid, cpus) for pid, cpus in zip(PIDS, CPUS, strict=True)
        ]
        self._ranks = RankProcesses()
        self._ranks.pids = frozenset(PIDS)
        self._make()
        self.room(500)
        group = folder / "cgroup"
        self._probes: list[Probe] = [
            KernelLogProbe(self._log),
            NvmlProbe(self.clock, sys=self.sys),
            FabricProbe(self.clock, self.sys),
            DiskProbe(self.clock, self.proc.folder, self._room.__getitem__),
            ContainerProbe(self.clock, lambda: set(PIDS), self.proc.folder, group),
            HostProbe(self.clock, self.proc.folder, self._ranks, sys=self.sys),
            TopologyProbe(self.clock, self._ranks, self.proc.folder, self.sys),
        ]
        self._sent = 0
        self._send({Kind.RANK_STATE: state_rows(range(2), 2, 1.0, 1, 0.1)})

    def set(self, **values: object) -> None:
        """Change words and counters in the kernel's tables."""
        self._tables |= values
        self._write()

    def room(self, free: int) -> None:
        """Let so many of the disk's 1,000 blocks be free; the file server is half full."""
        real = os.statvfs("/")
        for mount, free_blocks in (("/", free), ("/data", 500)):
            blocks = (1000, free_blocks, free_blocks, 1000, free_blocks, free_blocks)
            self._room[mount] = os.statvfs_result((*real[:2], *blocks, *real[8:]))

    def device(self, **values: int) -> None:
        """Change what the driver says of the second device."""
        self.driver.devices[1] |= values
        self.driver.write()

    def cpu(self, file: str, text: str) -> None:
        """Write a file of the first CPU, as `cpufreq/scaling_governor`."""
        place = self.sys / "devices/system/cpu/cpu0" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")

    def state(self, letter: str) -> None:
        """Let the process of rank 1 be in this state of proc(5)."""
        fields = [letter, *["0"] * 18, "4711"]
        (self.proc.folder / "42/stat").write_text(f"42 (python3) {' '.join(fields)}\n")
        (self.proc.folder / "42/wchan").write_text("rpc_wait_bit_killable")

    def clock_source(self, name: str) -> None:
        """Choose the kernel's clock source."""
        place = self.sys / "devices/system/clocksource/clocksource0"
        place.mkdir(parents=True, exist_ok=True)
        (place / "current_clocksource").write_text(f"{name}\n")

    def kernel_says(self, text: str) -> None:
        """Write a message as the kernel does."""
        with open(self._log, "a") as log:
            log.write(f"3,1,{self.clock.now // 1000},-;{text}\n")

    def look(self, seconds: float = 5.0) -> Seen:
        """Let time pass, read every probe, and send what is due."""
        self.clock.now += round(seconds * NANOSECONDS)
        now = self.clock.now
        for probe in self._probes:
            rows = rows_of(probe)
            if isinstance(probe, NvmlProbe):
                answer = Answer(rows, tuple(map(frozenset, probe.owners())))
                self._ranks.devices = used_devices(answer)
            self.book.take(probe.name, probe.facts(), now)
        self.book.settle(now)
        ranks = {pid: rank for rank, pid in enumerate(PIDS)}
        self._send({Kind.NODE_FACT: self.book.rows(now, ranks)})
        node_faults = self.attempt.tracker(NodeFaults).faults({"node-0": now / NANOSECONDS})
        faults = [fault for fault in node_faults if fault.present]
        return Seen(faults, detect([Fault(fault, 0, 0.0) for fault in faults], nodes=4))

    def close(self) -> None:
        """Close the probes."""
        for probe in self._probes:
            probe.close()

    def _make(self) -> None:
        (self.proc.folder / "self").mkdir()
        for pid in PIDS:
            (self.proc.folder / str(pid) / "cgroup").write_text(f"0::/{GROUP}\n")
        (self.proc.folder.parent / "cgroup" / GROUP).mkdir(parents=True)
        for part in ("core", "package"):
            self.cpu(f"thermal_throttle/{part}_throttle_total_time_ms", "0")
        self._write()

    def _write(self) -> None:
        group = self.proc.folder.parent / "cgroup" / GROUP
        for place, text in (
            (self.proc.folder / "self/mountinfo", MOUNTS),
            (self.proc.folder / "self/mountstats", CALLS),
            (self.proc.folder / "diskstats", DISK),
            (self.proc.folder / "vmstat", VMSTAT),
            (self.proc.folder / "buddyinfo", BUDDIES),
            (self.proc.folder / "meminfo", FILES["meminfo"]),
            (group / "cpu.stat", "usage_usec 5\nnr_periods {periods}\nnr_throttled {throttled}\n"),
            (group / "memory.events", "low 0\nhigh {high}\nmax 0\noom {oom}\n"),
        ):
            place.write_text(text.format(**self._tables))

    def _send(self, tables: dict[Kind, object]) -> None:
        self._sent += 1
        time_s = self.clock.now / NANOSECONDS
        self.attempt.apply(segment(self._sent, tables), Received(time_s, time_s))  # type: ignore[arg-type]
