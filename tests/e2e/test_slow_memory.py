"""A real run slowed by its container's limit of memory: that is why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_groups import control_group
from tests.e2e.two_ranks import Nodes, nodes
from tests.verdicts.real.environ import ENV_BATCHES

__all__ = ["nodes"]

pytest.importorskip("torch", reason="the ranks need torch")
pytestmark = pytest.mark.long(
    "tests/agent/probes/container/test_container.py::test_memory_at_its_limit",
    "tests/collector/incidents/test_node_causes.py::test_who_and_what_explains",
)


@pytest.fixture
def memory_group() -> Iterator[Path]:
    with control_group("memory", "memory.limit_in_bytes", str(1 << 40)) as group:
        yield group


def test_a_limit_of_memory_is_why_a_rank_reads_slowly(
    memory_group: Path, nodes: Nodes, tmp_path: Path
) -> None:
    """A file that the rank reads repeatedly no longer fits into its container's memory."""
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
    slow = nodes.incident_with_cause("memory", "container-limit")
    assert (slow["kind"], slow["rank"], slow["phase"]) == ("straggler", 1, "data")
    assert "its container is at its limit of memory" in slow["summary"]
    nodes.end()
