"""A tree of `/sys` with two sockets, and below a PCIe switch of each a device and a card."""

from __future__ import annotations

from pathlib import Path

DEVICES = ("0000:3b:00", "0000:3c:00")
CARDS = ("0000:5e:00.0", "0000:5f:00.0")
SWITCHES = (
    "pci0000:30/0000:30:01.0/0000:31:00.0",
    "pci0000:80/0000:80:01.0/0000:81:00.0",
)
"""Host bridge, root port and upstream port of each socket's switch."""
CPUS = ("0-7", "8-15")
GPU = {"vendor": "0x10de", "class": "0x030200"}


class Machine:
    """Two NUMA nodes of eight CPUs: device N, card mlx5_N and its interface ibN on node N."""

    def __init__(self, sys: Path) -> None:
        self.sys = sys
        for node in (0, 1):
            self.node(node, cpulist=CPUS[node], distance=("10 21", "21 10")[node])
            self.function(f"{SWITCHES[node]}/0000:32:00.0/{DEVICES[node]}.0", node, **GPU)
            place = self.function(f"{SWITCHES[node]}/0000:32:01.0/{CARDS[node]}", node)
            self.named("infiniband", f"mlx5_{node}", place)
            self.named("net", f"ib{node}", place)

    def function(self, path: str, node: int, **files: str) -> Path:
        """Make a function at a path below `/sys/devices`, as the kernel lists it."""
        place = self.sys / "devices" / path
        place.mkdir(parents=True, exist_ok=True)
        cpus = CPUS[node] if node >= 0 else "0-15"
        for name, value in {"numa_node": str(node), "local_cpulist": cpus, **files}.items():
            (place / name).write_text(f"{value}\n")
        listed = self.sys / "bus/pci/devices" / place.name
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.unlink(missing_ok=True)
        listed.symlink_to(place)
        return place

    def named(self, kind: str, name: str, place: Path) -> None:
        """Let a device of a class be that function."""
        folder = self.sys / "class" / kind / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "device").unlink(missing_ok=True)
        (folder / "device").symlink_to(place)

    def node(self, number: int, **files: str) -> None:
        """Write files of a NUMA node."""
        place = self.sys / f"devices/system/node/node{number}"
        place.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (place / name).write_text(f"{value}\n")


class Process:
    """A process in a `/proc` of files: where it may run, and how much memory is its own."""

    def __init__(self, proc: Path, pid: int, cpus: str, gibibytes: float = 0.0) -> None:
        self.folder = proc / str(pid)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.runs_on(cpus, gibibytes)
        # Of 4096 pages; libraries and what it cannot write do not count.
        (self.folder / "maps").write_text(
            "10000000-10800000 rw-p 00000000 00:00 0 \n"
            "20000000-20800000 rw-p 00000000 00:00 0 [heap]\n"
            "30000000-40000000 r-xp 00000000 08:01 9 /lib/libtorch.so\n"
            "50000000-60000000 rw-p 00000000 08:01 9 /lib/libtorch.so\n"
        )

    def runs_on(self, cpus: str, gibibytes: float = 0.0) -> None:
        """Say where it may run."""
        rss_kb = round(gibibytes * (1 << 20))
        (self.folder / "status").write_text(
            f"Name:\tpython3\nRssAnon:\t{rss_kb} kB\nRssShmem:\t0 kB\nCpus_allowed_list:\t{cpus}\n"
            "voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n"
        )
