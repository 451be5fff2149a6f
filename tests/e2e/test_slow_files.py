"""A real run slowed by its file server: that is why. Every agent of the machine sees the mount."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.two_ranks import Nodes, nodes
from tests.services import ROOT
from tests.verdicts.real.environ import ENV_BATCHES
from tests.waiting import until

__all__ = ["nodes"]

pytest.importorskip("torch", reason="the ranks need torch")
pytestmark = pytest.mark.long(
    "tests/agent/probes/disk/test_disk.py::test_a_file_server_is_slow_by_its_calls_or_by_what_is_sent_again",
    "tests/collector/incidents/test_node_causes.py::test_who_and_what_explains",
)


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
    slow = nodes.incident_with_cause("files", "storage-fault")
    assert slow["rank"] == 1
    assert f"because its file server answers slowly ({files})" in slow["summary"]
    assert any(
        "fuse.test-files from slow-files: one answer" in entry["text"] for entry in slow["evidence"]
    )
    node_incident = until("the node's own incident", lambda: nodes.node_incident("files"))
    assert node_incident["subject"].endswith(f"/file-server-slow/{files}")
    (tmp_path / "delay").unlink()
    until("it is over", lambda: (nodes.node_incident("files") or {}).get("state") == "resolved")
