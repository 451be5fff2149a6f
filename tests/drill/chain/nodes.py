"""A node of the drill: its agent, with scripted hardware and a scripted kernel log."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.agent.probes.nvml.scripted import ENV_SCRIPT, Driver
from tests.ports import free_port
from tests.soak.processes import CLI, end, spawn

BUS = 0x3B
"""PCI bus of a node's first device."""


class Node:
    """Starts and ends the agent of a node that has a device for each of `devices` ranks."""

    def __init__(self, folder: Path, number: int, rings: Path, driver: Path, devices: int) -> None:
        self.name = f"node-{number}"
        self.port = free_port()
        self.rings = rings
        self._folder, self._library = folder, driver.parent
        self._log = folder / f"kmsg-{number}"
        self._log.touch()
        self._script = folder / f"driver-{number}.txt"
        self.driver = Driver(self._script, devices)
        for index, device in enumerate(self.driver.devices):
            device |= {"pci_bus": BUS + index, "recovery": 0}
        self.driver.write()
        self._agent: subprocess.Popen[bytes] | None = None

    def start(self, collector: str, *options: str) -> None:
        """Start the agent, with further options."""
        words = [
            *CLI, "agent", "--collector", collector, "--port", str(self.port), "--node", self.name,
            "--ring-dir", str(self.rings), "--spool", str(self._folder / f"spool-{self.name}"),
            "--kernel-log", str(self._log), *options,
        ]  # fmt: skip
        environ = [f"LD_LIBRARY_PATH={self._library}", f"{ENV_SCRIPT}={self._script}"]
        self._agent = spawn(self._folder / f"agent-{self.name}.log", "env", *environ, *words)

    def end(self, number: int) -> None:
        """End the agent by a signal."""
        if self._agent is not None:
            end(self._agent, number, 10.0)
            self._agent = None

    def occupied_by(self, pids: Iterable[int]) -> None:
        """Assign the devices to these processes, in order."""
        for device, pid in zip(self.driver.devices, pids, strict=False):
            device["pid"] = pid
        self.driver.write()

    def kernel_says(self, text: str) -> None:
        """Write a message as the kernel does."""
        with open(self._log, "a") as log:
            log.write(f"3,1,{time.monotonic_ns() // 1000},-;{text}\n")
