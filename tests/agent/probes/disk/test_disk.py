"""The disk probe: a real file system that fills up, and counters as kernels write them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.probes.disk import DiskProbe
from stepwatch.agent.probes.disk.latency import DiskLatency, ServerLatency, parse_calls
from stepwatch.agent.probes.disk.mounts import Mount, parse_mounts
from stepwatch.signals.records import NodeFact
from tests.agent.probes.hand_clock import HandClock
from tests.services import ROOT
from tests.waiting import until

S = 1_000_000_000
IN_NAMESPACE = "tests.agent.probes.disk.in_namespace"
MOUNTS = r"""
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,errors=remount-ro
23 22 0:21 / /sys rw - sysfs sysfs rw
30 22 0:26 / /dev/shm rw,nosuid shared:9 - tmpfs tmpfs rw
31 22 0:27 / /run rw,nosuid shared:9 - tmpfs tmpfs rw
40 22 0:51 / /data rw,relatime shared:20 - nfs4 10.0.0.7:/export rw,vers=4.2,hard
41 22 259:2 / /my\040ckpt rw,relatime - xfs /dev/nvme1n1 rw
42 22 259:2 /sub /bound ro,relatime - xfs /dev/nvme1n1 rw
43 22 7:3 / /snap/core ro,nodev - squashfs /dev/loop3 ro
45 22 0:60 / /lxc rw - fuse.lxcfs lxcfs rw
46 22 0:61 / /bucket rw,nosuid - fuse.gcsfuse bucket rw,user_id=0
44 22 259:3 / /image ro,relatime - ext4 /dev/nvme2n1 ro
nonsense
"""


def test_mounts_are_file_systems_with_files_of_users_each_once() -> None:
    assert parse_mounts(MOUNTS) == [
        Mount("/", "ext4", "/dev/nvme0n1p1", True),
        Mount("/dev/shm", "tmpfs", "tmpfs", True),
        Mount("/my ckpt", "xfs", "/dev/nvme1n1", True),
        Mount("/image", "ext4", "/dev/nvme2n1", False),
        Mount("/data", "nfs4", "10.0.0.7:/export", True),
        Mount("/bucket", "fuse.gcsfuse", "bucket", True),
    ]


@given(st.text(max_size=300))
def test_nonsense_hides_no_mount_that_follows(text: str) -> None:
    mounts = parse_mounts(f"22 1 259:1 / /x rw - ext4 {text}\n{text}\n{MOUNTS}")
    assert {"/", "/dev/shm", "/data"} <= {mount.path for mount in mounts} | {"/"}
    server = "device a:/b mounted on /mnt with fstype nfs4\n\tper-op statistics\n"
    calls = parse_calls(f"{text}\n{server}\tREAD: 7 7 0 1 1 1 1 9 0\n")
    assert calls["/mnt"].ended == 7


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("unshare"),
    reason="mounting needs root, mkfs.ext4 and unshare",
)
def test_a_real_file_system(tmp_path: Path) -> None:
    process = subprocess.run(
        ["unshare", "--mount", sys.executable, "-m", IN_NAMESPACE, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "failed to setup loop device" in process.stderr:
        pytest.skip("no loop device can be had here")
    assert process.returncode == 0, process.stderr
    healthy, full, freed, no_inodes, read_only, remounted = map(
        json.loads, process.stdout.splitlines()
    )
    place = tmp_path / "with blank"
    assert healthy == freed == remounted == []
    assert full == [["DISK_FULL", f"0.0 % of the bytes of {place} are free"]]
    assert no_inodes == [["DISK_FULL", f"0.0 % of the inodes of {place} are free"]]
    assert read_only == [["READ_ONLY", f"ext4 at {place} was writable and is mounted read-only"]]


class Proc:
    """`/proc` with the tables of a node that has one disk and one file server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self").mkdir(parents=True)
        server = "40 22 0:51 / /data rw - nfs4 fs:/export rw"
        self.mounts = f"{server}\n22 1 259:1 / / rw - ext4 /dev/a rw\n"
        self.calls = ""
        self.disks = ""
        self.write()

    def write(self) -> None:
        (self.folder / "self/mountinfo").write_text(self.mounts)
        (self.folder / "self/mountstats").write_text(self.calls)
        (self.folder / "diskstats").write_text(self.disks)


class Server:
    """A file server that answers when it is let, in seconds that a test sets."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.released = threading.Event()
        self.released.set()
        self.asked: list[str] = []
        self.healthy = os.statvfs("/")

    def __call__(self, path: str) -> os.statvfs_result:
        self.asked.append(path)
        if path == "/data":
            self.released.wait(240.0)
        return self.healthy


def test_a_file_server_that_does_not_answer_holds_up_no_other_mount(tmp_path: Path) -> None:
    """The kernel's own call is replaced, to set the clock; tests/e2e has a real slow mount."""
    clock, proc = HandClock(), Proc(tmp_path)
    server = Server(clock)
    probe = DiskProbe(clock, proc.folder, server)

    def facts_after(seconds: float) -> list[tuple[str, str, str]]:
        clock.now += round(seconds * S)
        probe.read()
        return [(fact.fact.name, fact.subject, fact.text) for fact in probe.facts()]

    assert facts_after(0.0) == []
    server.released.clear()
    try:
        assert facts_after(1.0) == [], "it was asked just now"
        assert facts_after(1.5) == [
            ("FILE_SERVER_SLOW", "/data", "nfs4 from fs:/export: one answer takes 1.5 s")
        ]
        assert facts_after(9.0) == [
            ("FILE_SERVER_SILENT", "/data", "nfs4 from fs:/export: no answer for 10 s")
        ]
        assert server.asked.count("/data") == 2 and server.asked.count("/") == 4
    finally:
        server.released.set()

    def answered() -> bool:
        return [name for name, *_ in facts_after(0.0)] == ["FILE_SERVER_SLOW"]

    until("the late answer counts as slow", answered)
    until("the server answers", lambda: not facts_after(0.0))


DISK = " 259 0 nvme0n1 {reads} 0 8 {read_ms} {writes} 0 8 {write_ms} {waiting} 0 0 0 0 0 0"
PARTITION = " 259 1 nvme0n1p1 9 0 8 99999 9 0 8 99999 9 0 0 0 0 0 0"


def disk(ended: int, milliseconds: int, waiting: int = 0) -> str:
    line = DISK.format(reads=ended, read_ms=milliseconds, writes=0, write_ms=0, waiting=waiting)
    return f"{line}\n{PARTITION}\n   7 0 loop0 1 0 8 99999 0 0 0 0 0 0 0 0 0 0 0\n"


def test_a_disk_is_slow_while_its_requests_take_a_second() -> None:
    latency = DiskLatency()
    assert latency.find(disk(1000, 5000), 10 * S) == []
    assert latency.find(disk(2000, 9000), 15 * S) == [], "4 ms each"
    (sighting,) = latency.find(disk(2010, 34_000), 20 * S)
    assert (sighting.fact, sighting.subject) == (NodeFact.DISK_SLOW, "nvme0n1")
    assert sighting.text == "10 requests took 2.5 s each"
    assert latency.find(disk(2011, 40_000), 21 * S) == [sighting], "within the window it stays"
    assert latency.find(disk(2012, 50_000), 25 * S) == [], "two requests are not an average"
    assert latency.find(disk(50, 10), 30 * S) == [], "counters that were reset say nothing"


def test_a_disk_hangs_while_requests_wait_and_none_ends() -> None:
    latency = DiskLatency()
    for second in range(10, 15):
        assert latency.find(disk(1000, 5000, waiting=3), second * S) == []
    (sighting,) = latency.find(disk(1000, 5000, waiting=3), 15 * S)
    assert sighting.text == "3 requests wait, and none ended for 5 s"
    assert latency.find(disk(1001, 15_000, waiting=2), 16 * S) == []


CALLS = """device /dev/vda mounted on / with fstype ext4
device fs:/export mounted on /data with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: {ended} {sent} 0 1200 5000 3 40 {milliseconds} 0
"""


def test_a_file_server_is_slow_by_its_calls_or_by_what_is_sent_again() -> None:
    latency = ServerLatency()

    def find(ended: int, sent: int, milliseconds: int, second: int) -> list[str]:
        text = CALLS.format(ended=ended, sent=sent, milliseconds=milliseconds)
        return [
            f"{sighting.subject}: {sighting.text}" for sighting in latency.find(text, second * S)
        ]

    assert find(100, 100, 200, 10) == []
    assert find(200, 200, 500, 15) == []
    assert find(210, 210, 12_500, 20) == ["/data: 10 calls took 1.20 s each, 0 were sent again"]
    assert find(310, 320, 12_600, 25) == ["/data: 100 calls took 0.00 s each, 10 were sent again"]
    assert find(410, 420, 12_700, 30) == []
