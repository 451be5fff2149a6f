"""Two nodes as two network namespaces, and a link between them that the kernel can slow down."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.namespaces import ip, remove, run
from tests.verdicts.real.environ import ENV_NODE_SPACES
from tests.verdicts.scenario.plan import Fault

INTERFACE = "sw-link"
_ADDRESSES = ("10.231.77.1", "10.231.77.2")
_CROSSING_BYTES = 60_000
"""Approximate bytes that a step sends over the link each way: the loop's gradients, in a ring."""
_LEAST_RATE = 2_000


def rate_of(effect: float, step_seconds: float) -> int:
    """Return the link's rate in bytes a second with which a step takes `effect` times as long."""
    return max(_LEAST_RATE, round(_CROSSING_BYTES / ((effect - 1.0) * step_seconds)))


class Links:
    """Network namespaces of the two nodes.

    Raises:
        OSError: this process cannot make them; only root may.
    """

    def __init__(self, step_seconds: float) -> None:
        self._step_seconds = step_seconds
        self._names = [f"sw{os.getpid()}n{node}" for node in range(2)]
        self.environ = {
            ENV_NODE_SPACES: ":".join(self._names),
            "MASTER_ADDR": _ADDRESSES[0],
            "GLOO_SOCKET_IFNAME": INTERFACE,
        }
        try:
            self._make()
        except OSError:
            self.close()
            raise

    def _make(self) -> None:
        first, second = self._names
        for name in self._names:
            ip("netns", "add", name)
        ip("link", "add", "name", INTERFACE, "netns", first, "type", "veth",
            "peer", "name", INTERFACE, "netns", second)  # fmt: skip
        for name, address in zip(self._names, _ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
            ip("-n", name, "link", "set", INTERFACE, "up")
            ip("-n", name, "link", "set", "lo", "up")

    def begin(self, fault: Fault, pids: Sequence[int]) -> None:
        """Limit the link so that steps take as long as the fault says."""
        self.slow(rate_of(fault.effect, self._step_seconds))

    def slow(self, rate: int) -> None:
        """Limit the link to `rate` bytes a second each way."""
        for name in self._names:
            run("tc", "-n", name, "qdisc", "add", "dev", INTERFACE, "root", "tbf",
                 "rate", f"{rate}bps", "burst", "4kb", "latency", "20s")  # fmt: skip

    def free(self) -> None:
        """Remove the link's limit."""
        for name in self._names:
            run("tc", "-n", name, "qdisc", "delete", "dev", INTERFACE, "root")

    def carried(self) -> int:
        """Return the bytes that the first node has sent over the link."""
        words = ("ip", "-n", self._names[0], "-s", "-j", "link", "show", "dev", INTERFACE)
        process = subprocess.run(words, capture_output=True, text=True, check=True)
        return int(json.loads(process.stdout)[0]["stats64"]["tx"]["bytes"])

    def cut(self) -> None:
        """Cut the link: the last node's end is down."""
        ip("-n", self._names[-1], "link", "set", INTERFACE, "down")

    def mend(self) -> None:
        """Bring the last node's end up again."""
        ip("-n", self._names[-1], "link", "set", INTERFACE, "up")

    def close(self) -> None:
        """Remove the namespaces, and the link with them."""
        remove(self._names)


def enter(name: str) -> None:
    """Move this process, which has one thread, into a network namespace.

    Raises:
        OSError: there is no such namespace, or this process may not enter it.
    """
    with Path("/run/netns", name).open() as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)
