"""Scripted hardware of a full node for the agent's benchmark: 8 devices, 8 ports, 4 disks.

Figures on it lack the time that calls of a real driver and a real card take.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stepwatch.agent.probes.fabric.counters import COUNTERS
from tests.agent.probes.fabric.made import Cards
from tests.agent.probes.nvml.scripted import ENV_SCRIPT, Driver, build

DEVICES, PORTS, DISKS = 8, 8, 4
_METRICS = (2, 5, 10, 20, 21, 60, 61)
"""Numbers of GPM metrics."""
_HW = ("rnr_nak_retry_err", "local_ack_timeout_err", "packet_seq_err", "out_of_sequence",
       "roce_slow_restart")  # fmt: skip
_MOUNT = """
cd "$0"
mount --bind sys/class /sys/class
mount --bind diskstats /proc/diskstats
for disk in disk*; do mkdir "at-$disk" && mount -o loop "$disk" "at-$disk"; done
exec "$@"
"""


def devices(folder: Path) -> Driver:
    """Write a scripted driver of eight devices with links and performance monitoring.

    It sets the variables by which the agent finds it in this process's environment.
    """
    (folder / "library").mkdir()
    library = build(folder / "library").parent
    driver = Driver(folder / "driver.txt", DEVICES)
    for number, device in enumerate(driver.devices):
        device |= {f"link{link}": 1 for link in range(2, 18)}
        device |= {f"link{link}_errors{kind}": 0 for link in range(18) for kind in range(3)}
        device |= {"gpm": 1, **{f"gpm{metric}": 500 + metric for metric in _METRICS}}
        device |= {"pci_bus": 0x10 + number, "persistence": 1, "mig": 0, "slows_at": 87}
        device |= {"lanes": 16, "lanes_most": 16, "remapped": 0, "recovery": 0}
    driver.write()
    os.environ |= {
        "LD_LIBRARY_PATH": str(library),
        ENV_SCRIPT: str(folder / "driver.txt"),
        "STEPWATCH_TEST_DRIVER_LAZY": "1",
    }
    return driver


def wrap(folder: Path, words: list[str]) -> list[str]:
    """Return `words` in a mount namespace with the ports and disks; unchanged without
    permission."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("mkfs.ext4"):
        return words
    cards = Cards(folder / "sys", PORTS)
    for card in range(PORTS):
        for name in COUNTERS:
            cards.count(f"mlx5_{card}", hw=name in _HW, **{name: 7})
    lines = [f"259 {n} nvme{n}n1 900 0 8000 450 700 0 9000 350 1 700 800" for n in range(DISKS)]
    (folder / "diskstats").write_text("\n".join(lines) + "\n")
    for number in range(DISKS):
        image = folder / f"disk{number}"
        with image.open("wb") as file:
            file.truncate(4 << 20)
        os.spawnlp(os.P_WAIT, "mkfs.ext4", "mkfs.ext4", "-q", "-F", str(image))
    return ["unshare", "--mount", "sh", "-c", _MOUNT, str(folder), *words]
