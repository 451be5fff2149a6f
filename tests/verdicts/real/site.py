"""A collector, a fork server, and for each run one agent a node and the means of its fault."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.ports import free_port
from tests.services import ServiceError
from tests.verdicts.plan import Plan
from tests.verdicts.scenario.plan import Scenario, node_name
from tests.verdicts.site import Site, kill

from .environ import ENV_NODE_RINGS
from .outside import Outside
from .scenarios import Planned
from .ways import SIGNALS, Means, make_means

START_SECONDS = 90.0
_TICK_SECONDS = 0.01


class Ran(NamedTuple):
    """Incidents, in seconds since the ranks made steps, and the lost share of throughput after the
    onset; None if it is unknown.
    """

    incidents: list[dict[str, Any]]
    cost: float | None


class RealSite(Site):
    """The services and a fork server; each run has its own agents."""

    def __init__(self, folder: Path, rings: Path) -> None:
        super().__init__(folder, rings)
        self._agents: dict[int, subprocess.Popen[bytes]] = {}

    def _start_agent(self) -> None:
        """Start no agent: one for all rings would still report after a node's agent ended."""

    def run(self, planned: Planned) -> Ran:
        """Run a scenario.

        Raises:
            NoMeansError: this machine cannot cause the fault.
            ServiceError: the ranks are not on the expected nodes.
        """
        scenario = planned.scenario
        run_folder = self.folder / scenario.job
        run_folder.mkdir(exist_ok=True)
        means = make_means(planned.way.name, scenario.job, run_folder, scenario.step_seconds)
        try:
            return self._run(planned, means, run_folder)
        finally:
            means.close()

    def _run(self, planned: Planned, means: Means, run_folder: Path) -> Ran:
        scenario = planned.scenario
        rings = [self.rings / f"{scenario.job}-{node}" for node in range(scenario.nodes)]
        for node, folder in enumerate(rings):
            folder.mkdir(exist_ok=True)
            self._agents[node] = self._processes.start(
                f"agent-{node}", "agent", "--collector", self.url, "--ring-dir", str(folder),
                "--node", node_name(node), "--port", "0",
                "--spool", str(run_folder / f"spool-{node}"),
            )  # fmt: skip
        pids = self.launch(_plan(scenario, rings, run_folder, means))
        try:
            return self._follow(planned, means, pids)
        finally:
            kill(pids)
            for node in range(scenario.nodes):
                self._processes.stop(f"agent-{node}", 3.0)

    def _follow(self, planned: Planned, means: Means, pids: list[int]) -> Ran:
        scenario = planned.scenario
        began = self._first_step(scenario.job)
        by_means = None if planned.way.name == SIGNALS else partial(means.begin, pids=pids)
        outside = Outside(scenario, pids, self._kill_agent, begin=by_means)
        onset = min((fault.onset for fault in scenario.faults), default=scenario.seconds)
        first, at_onset = self._steps(scenario.job), None
        while time.time() < began + scenario.seconds:
            elapsed = time.time() - began
            if at_onset is None and elapsed >= onset:
                at_onset = self._steps(scenario.job)
            outside.tick(elapsed)
            time.sleep(_TICK_SECONDS)
        self._expect_nodes(scenario)
        last = self._steps(scenario.job)
        incidents = self.incidents(scenario.job)
        since = [{**incident, "opened_at": incident["opened_at"] - began} for incident in incidents]
        steps_before = (at_onset or last) - first
        usual = steps_before / onset if onset else 0.0
        shown = scenario.seconds - onset
        cost = 1.0 - (last - (at_onset or last)) / (usual * shown) if usual and shown else None
        return Ran(since, cost)

    def _kill_agent(self, node: int) -> None:
        # An agent that is asked to end reports first.
        self._agents[node].kill()

    def _first_step(self, job: str) -> float:
        """Wait until the job makes steps; return the moment in Unix seconds."""
        until = time.time() + START_SECONDS
        while time.time() < until and not self._steps(job):
            time.sleep(0.1)
        return time.time()

    def _expect_nodes(self, scenario: Scenario) -> None:
        """Check that the agent of each node has seen its ranks."""
        per_node = scenario.ranks_per_node
        wanted = {rank: node_name(rank // per_node) for rank in range(scenario.ranks)}
        ranks = (self.job(scenario.job) or {}).get("ranks", [])
        nodes = {item["rank"]: item["node"] for item in ranks}
        if nodes != wanted:
            raise ServiceError(f"{scenario.job}: the ranks are on {nodes}, not on {wanted}")

    def _steps(self, job: str) -> int:
        """Return the job's newest step in the collector."""
        job_state = self.job(job)
        return 0 if job_state is None else int(job_state.get("step") or 0)


def _plan(scenario: Scenario, rings: Sequence[Path], run_folder: Path, means: Means) -> Plan:
    step = scenario.step_seconds
    return Plan(
        job=scenario.job,
        world=scenario.ranks,
        workload="outside",
        steps=100_000,
        data_seconds=0.03 * step,
        forward_seconds=0.35 * step,
        backward_seconds=0.55 * step,
        port=free_port(),
        folder=str(run_folder),
        environ={ENV_NODE_RINGS: ":".join(map(str, rings)), **means.environ},
    )
