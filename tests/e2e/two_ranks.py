"""Two ranks that sleep instead of working, and faults around them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.verdicts.plan import Plan
from tests.verdicts.site import Site, kill
from tests.waiting import until


class Nodes(Site):
    """Two ranks, with an agent and a collector."""

    def __init__(self, folder: Path) -> None:
        # Messages of the kernel about concurrent tests do not concern these ranks.
        super().__init__(folder, folder / "rings", ("--kernel-log", "/dev/null"))
        self.rings.mkdir()
        self.pids: list[int] = []
        self.helpers: list[subprocess.Popen[bytes]] = []

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

    def incident_with_cause(self, job: str, cause: str) -> dict[str, Any]:
        """The first incident with this cause that is not the node's own."""

        def first_incident() -> dict[str, Any] | None:
            return next(
                (
                    incident
                    for incident in self.incidents(job)
                    if incident["cause"] == cause and incident["kind"] != "node-fault"
                ),
                None,
            )

        try:
            return until(f"an incident because of {cause}", first_incident)
        except pytest.fail.Exception as error:
            incidents = [
                (incident["kind"], incident["cause"], incident["summary"])
                for incident in self.incidents(job)
            ]
            raise AssertionError(f"{error}; seen: {incidents}") from error

    def node_incident(self, job: str) -> dict[str, Any] | None:
        """Return the node's own incident, if there is one."""
        return next(
            (incident for incident in self.incidents(job) if incident["kind"] == "node-fault"), None
        )

    def end(self) -> None:
        """End the ranks."""
        kill(self.pids)

    def close(self) -> None:
        """End all processes."""
        self.end()
        for process in self.helpers:
            process.kill()
            process.wait()
        super().close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    new_nodes = Nodes(tmp_path)
    try:
        new_nodes.start()
        yield new_nodes
    finally:
        new_nodes.close()
