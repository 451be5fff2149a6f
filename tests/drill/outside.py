"""Faults outside the trainer: hardware, network, node, agent, storage."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from stepwatch.signals.records import Throttle

from .chain.nodes import BUS

if TYPE_CHECKING:
    from .chain.site import Site

_LAST = 1
"""Number of the faulty node, which runs ranks 2 and 3."""
_RANK = 3
"""Rank whose device the kernel reports. No other drill uses it: a report explains the rank's
failures for ten minutes.
"""
_DEVICE = 1
_XID = (
    f"NVRM: Xid (PCI:0000:{BUS + _DEVICE:02x}:00): 79, "
    "pid={pid}, name=python3, GPU has fallen off the bus."
)
_MEASURED_SECONDS = 3.0
_SLOWER = 4
_STORAGE_MIB = 96


class Outside:
    """A fault that begins and is fixed, more than once in a site's life."""

    def prepare(self, site: Site, job: str) -> None:
        """Called before the job starts."""

    def begin(self, site: Site, job: str) -> None:
        """Start the fault."""
        raise NotImplementedError

    def mend(self, site: Site, job: str) -> None:
        """Fix the fault; called before the job restarts."""

    def tidy(self, site: Site, job: str) -> None:
        """Clean up; called when the job is over."""


class SlowLink(Outside):
    """The link carries a quarter of the job's traffic."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        carried_before = site.links.carried()
        time.sleep(_MEASURED_SECONDS)
        site.links.slow(
            round((site.links.carried() - carried_before) / _MEASURED_SECONDS / _SLOWER)
        )

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.links.free()


class LinkCut(Outside):
    """The link carries nothing; telemetry has another path."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.links.cut()

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.links.mend()


class HotDevice(Outside):
    """A device throttles; the trainer's own fault makes the rank slow."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.nodes[_LAST].driver.devices[0] |= {
            "throttle": int(Throttle.HARDWARE_THERMAL),
            "clock": 900,
        }
        site.nodes[_LAST].driver.write()

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.nodes[_LAST].driver.devices[0] |= {"throttle": 0, "clock": 1900}
        site.nodes[_LAST].driver.write()


class Xid(Outside):
    """The kernel reports that a device has fallen off the bus; its rank continues."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        pid = site.training.pids(_LAST)[_RANK]
        site.nodes[_LAST].kernel_says(_XID.format(pid=pid))


class XidKills(Xid):
    """As `Xid`; the driver loses the device, and the rank dies of it."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        super().begin(site, job)
        node = site.nodes[_LAST]
        node.driver.devices[_DEVICE]["lost"] = 1
        node.driver.write()
        site.wait_incident(job, "node-fault")
        os.kill(site.training.pids(_LAST)[_RANK], signal.SIGKILL)

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.nodes[_LAST].driver.devices[_DEVICE].pop("lost", None)
        site.nodes[_LAST].driver.write()


class DriverHangs(Outside):
    """Driver calls do not return."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.nodes[_LAST].driver.devices[0]["hang"] = 1
        site.nodes[_LAST].driver.write()

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.nodes[_LAST].driver.devices[0].pop("hang", None)
        site.nodes[_LAST].driver.write()


class AgentGone(Outside):
    """The node's agent is killed; training continues."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.nodes[_LAST].end(signal.SIGKILL)

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.start_agent(_LAST)


class NodeLost(AgentGone):
    """A node loses power: link, ranks and agent fail at once."""

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.links.cut()
        super().begin(site, job)
        site.training.kill(_LAST)

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.links.mend()
        super().mend(site, job)


class FullDisk(Outside):
    """The checkpoint storage is full."""

    def prepare(self, site: Site, job: str) -> None:
        """See `Outside`."""
        place = site.folder / job / "run" / "checkpoints"
        place.mkdir(parents=True, exist_ok=True)
        size = f"size={_STORAGE_MIB}m"
        words = ["mount", "-t", "tmpfs", "-o", size, "stepwatch-drill", str(place)]
        subprocess.run(words, check=True, capture_output=True)
        site.mounts.append(place)

    def begin(self, site: Site, job: str) -> None:
        """See `Outside`."""
        place = site.folder / job / "run" / "checkpoints" / "filler"
        # Unbuffered: closing a buffered file would write the rest and fail again.
        with place.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 16))

    def mend(self, site: Site, job: str) -> None:
        """See `Outside`."""
        (site.folder / job / "run" / "checkpoints" / "filler").unlink(missing_ok=True)

    def tidy(self, site: Site, job: str) -> None:
        """See `Outside`."""
        site.unmount()


OUTSIDE: dict[str, Outside] = {
    "slow-link": SlowLink(),
    "link-cut": LinkCut(),
    "hot-device": HotDevice(),
    "xid": Xid(),
    "xid-kills": XidKills(),
    "driver-hangs": DriverHangs(),
    "agent-gone": AgentGone(),
    "node-lost": NodeLost(),
    "full-disk": FullDisk(),
}
"""Faults by the names in the drills."""
