"""Real runs slowed by a file server, a container's limits and a port that flaps: that is why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agent.probes.fabric.made import Cards
from tests.control_groups import control_group
from tests.ports import free_port
from tests.services import ROOT
from tests.verdicts.plan import Plan
from tests.verdicts.real.environ import ENV_BATCHES, ENV_BUSY, ENV_NODE_RINGS
from tests.verdicts.real.links import Links
from tests.verdicts.site import Site, kill
from tests.waiting import until

pytest.importorskip("torch", reason="the ranks need torch")

UNSHARE = shutil.which("unshare")
STEP_SECONDS = 0.1


class Nodes(Site):
    """Two ranks, and what happens to them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder / "rings")
        self.rings.mkdir()
        self.pids: list[int] = []
        self.others: list[subprocess.Popen[bytes]] = []

    def train(self, job: str, environ: Mapping[str, str], group: Path | None = None) -> None:
        """Start the ranks, rank 1 in a group, and wait until they have been healthy for a while."""
        self.pids += self.launch(
            Plan(
                job=job, world=2, workload="outside", steps=100_000, data_seconds=0.01,
                forward_seconds=0.04, backward_seconds=0.05, port=free_port(),
                folder=str(self.folder), environ=dict(environ),
            )
        )  # fmt: skip
        if group is not None:
            (group / "cgroup.procs").write_text(str(self.pids[1]))
        self.reach(job, 100)

    def reach(self, job: str, step: int) -> None:
        """Wait until the job is there."""
        until(f"step {step}", lambda: ((self.job(job) or {}).get("step") or 0) >= step)

    def because(self, job: str, cause: str) -> dict[str, Any]:
        """The first incident with this cause that is not the node's own."""

        def found() -> dict[str, Any] | None:
            return next(
                (
                    each
                    for each in self.incidents(job)
                    if each["cause"] == cause and each["kind"] != "node-fault"
                ),
                None,
            )

        try:
            return until(f"an incident because of {cause}", found)
        except pytest.fail.Exception as error:
            seen = [(each["kind"], each["cause"], each["summary"]) for each in self.incidents(job)]
            raise AssertionError(f"{error}; seen: {seen}") from error

    def of_node(self, job: str) -> dict[str, Any] | None:
        """The incident of the node itself, if there is one."""
        return next((each for each in self.incidents(job) if each["kind"] == "node-fault"), None)

    def end(self) -> None:
        """End the ranks."""
        kill(self.pids)

    def close(self) -> None:
        """End everything."""
        self.end()
        for process in self.others:
            process.kill()
            process.wait()
        super().close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    """A mounted file server that answers at once, or after the seconds in the file `delay`."""
    pytest.importorskip("mfusepy", reason="mfusepy is not installed")
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("mounting a FUSE file system needs root and /dev/fuse")
    # A short path, as mount points have: that of `tmp_path` would be cut off in the incident.
    place = Path(tempfile.mkdtemp(prefix="stepwatch-"))
    words = [sys.executable, "-m", "tests.e2e.slow_files", str(place), str(tmp_path / "delay")]
    with (
        open(tmp_path / "files.log", "wb") as log,
        subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log) as server,
    ):
        try:
            until("the mount is there", lambda: os.path.ismount(place) or server.poll() is not None)
            assert server.poll() is None, (tmp_path / "files.log").read_text()
            yield place
        finally:
            (tmp_path / "delay").unlink(missing_ok=True)
            subprocess.run(["umount", "--lazy", str(place)], check=False)
            server.kill()
            server.wait()
            place.rmdir()


def test_a_slow_file_server_is_why_a_rank_waits_for_data(
    nodes: Nodes, files: Path, tmp_path: Path
) -> None:
    nodes.train("files", {ENV_BATCHES: f":{files / 'batches'}"})
    assert nodes.incidents("files") == []
    (tmp_path / "delay").write_text("1.2")
    slow = nodes.because("files", "storage-fault")
    assert slow["rank"] == 1
    assert f"because its file server answers slowly ({files})" in slow["summary"]
    assert any(
        "fuse.test-files from slow-files: one answer" in each["text"] for each in slow["evidence"]
    )
    own = until("the node's own incident", lambda: nodes.of_node("files"))
    assert own["subject"].endswith(f"/file-server-slow/{files}")
    (tmp_path / "delay").unlink()
    until("it is over", lambda: (nodes.of_node("files") or {}).get("state") == "resolved")


@pytest.fixture
def cpu_group() -> Iterator[Path]:
    with control_group("cpu", "cpu.cfs_quota_us", "-1") as group:
        yield group


def test_a_quota_of_cpu_time_is_why_a_rank_is_slow(cpu_group: Path, nodes: Nodes) -> None:
    nodes.train("quota", {ENV_BUSY: "0.7"}, cpu_group)
    assert nodes.incidents("quota") == []
    (cpu_group / "cpu.cfs_quota_us").write_text("25000")
    slow = nodes.because("quota", "container-limit")
    assert (slow["kind"], slow["rank"]) == ("straggler", 1)
    assert "its container gets less CPU time than it asks for" in slow["summary"]
    nodes.end()


@pytest.fixture
def memory_group() -> Iterator[Path]:
    with control_group("memory", "memory.limit_in_bytes", str(1 << 40)) as group:
        yield group


def test_a_limit_of_memory_is_why_a_rank_reads_slowly(
    memory_group: Path, nodes: Nodes, tmp_path: Path
) -> None:
    """A file that its rank reads again and again no longer fits into what its container may use."""
    batches, size = tmp_path / "batches", 64 << 20
    with open(batches, "wb") as file:
        file.write(bytes(size))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # it is the rank's to cache
    nodes.train("memory", {ENV_BATCHES: f":{batches}"}, memory_group)
    assert nodes.incidents("memory") == []
    used = int((memory_group / "memory.usage_in_bytes").read_text())
    assert used > size, "the rank's group holds the file"
    (memory_group / "memory.limit_in_bytes").write_text(str(used - 3 * size // 4))
    slow = nodes.because("memory", "container-limit")
    assert (slow["kind"], slow["rank"], slow["phase"]) == ("straggler", 1, "data")
    assert "its container is at its limit of memory" in slow["summary"]
    nodes.end()


class Flapping:
    """A second node, whose agent sees made cards, and a link that goes down with a port."""

    def __init__(self, nodes: Nodes, links: Links) -> None:
        self.links = links
        self.cards = Cards(nodes.folder / "sys")
        self.rings = nodes.folder / "rings-1"
        self.rings.mkdir()
        self.downs = 3
        agent = [
            sys.executable, "-m", "stepwatch.cli", "agent", "--collector", nodes.url, "--node",
            "node-1", "--ring-dir", str(self.rings), "--spool", str(nodes.folder / "spool-1"),
            "--port", "0",
        ]  # fmt: skip
        script = 'mount --bind "$0" /sys/class && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, str(self.cards.sys / "class"), *agent]
        with open(nodes.folder / "agent-1.log", "wb") as log:
            nodes.others.append(subprocess.Popen(words, env=nodes.environ, stdout=log, stderr=log))

    def down(self) -> None:
        """The link is lost, and the port says so."""
        self.downs += 1
        self.links.cut()
        self.cards.set("mlx5_1", state="1: DOWN")
        self.cards.count("mlx5_1", link_downed=self.downs)

    def up(self) -> None:
        """It is there again."""
        self.links.mend()
        self.cards.set("mlx5_1", state="4: ACTIVE")


@pytest.fixture
def flapping(nodes: Nodes) -> Iterator[Flapping]:
    if UNSHARE is None:
        pytest.skip("unshare is not installed")
    try:
        links = Links(STEP_SECONDS)
    except OSError as error:
        pytest.skip(f"no network namespaces can be made here: {error}")
    try:
        yield Flapping(nodes, links)
    finally:
        links.close()


@pytest.mark.matrix  # a transfer that is slow in one step of forty is sure after two minutes
def test_a_port_that_flaps_is_why_collectives_are_slow(nodes: Nodes, flapping: Flapping) -> None:
    rings = f"{nodes.rings}:{flapping.rings}"
    nodes.train("flaps", {**flapping.links.environ, ENV_NODE_RINGS: rings})
    assert nodes.incidents("flaps") == []
    ended = threading.Event()

    def flap() -> None:
        while not ended.wait(4.0):
            flapping.down()
            ended.wait(2.0)
            flapping.up()

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        slow = nodes.because("flaps", "network-fault")
        assert slow["node"] == "node-1"
        assert "a network port of" in slow["summary"] and "(mlx5_1/1)" in slow["summary"]
        own = until("the node's own incident", lambda: nodes.of_node("flaps"))
        assert own["node"] == "node-1" and own["subject"].startswith("node-1/port-")
    finally:
        ended.set()
        thread.join()
