"""The command that runs scenarios on real processes and says whether the replay agrees.

Each run adds a line to a file, so the command goes on where it was ended.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepwatch.collector.quantities import json_value
from tests.ports import free_port
from tests.verdicts.plan import Plan
from tests.verdicts.real.loop import ENV_NODE_RINGS
from tests.verdicts.real.outside import KINDS, Outside
from tests.verdicts.scenario.plan import (
    SLOWING,
    FaultKind,
    Pace,
    Pauses,
    Scenario,
    Shape,
    Telemetry,
    node_name,
)
from tests.verdicts.scenario.reported.replay import replay
from tests.verdicts.scenario.sampler import sample
from tests.verdicts.scenario.scored.matching import Matched, brief, match
from tests.verdicts.scenario.truth import expected
from tests.verdicts.site import Site, kill

STEP_SECONDS = 0.3
ONSET_SECONDS = (20.0, 35.0)
SLOW_SECONDS, AFTER_SECONDS = 60.0, 35.0
"""How long a run goes on after the onset of what slows it, and of what ends it."""
HEALTHY_SHARE, START_SECONDS = 0.25, 90.0
_TICK_SECONDS = 0.01


def scenario_of(seed: int) -> Scenario:
    """The scenario of `seed` as this machine can run it: DDP on two nodes, faults by signals."""
    dice = random.Random(f"real {seed}")
    kind = dice.choice(KINDS)
    drawn = sample(seed, kind)
    base = Scenario(seed, Shape.DDP, 4, 2, STEP_SECONDS, Pace.RECORDED, SLOW_SECONDS)
    if dice.random() < HEALTHY_SHARE:
        return base
    (fault,) = drawn.faults
    node = dice.randrange(2)
    ranks: tuple[int, ...] = (dice.randrange(4),)
    if kind in (FaultKind.SLOW_NODE, FaultKind.LOST_NODE):
        ranks = (2 * node, 2 * node + 1)
    elif kind is FaultKind.STOP_ALL:
        ranks = (0, 1, 2, 3)
    onset = round(dice.uniform(*ONSET_SECONDS), 1)
    fault = replace(fault, ranks=ranks, onset=onset, period=1, node=node if fault.node >= 0 else -1)
    lost = Telemetry(killed_node=1 - node, killed_at=onset - 8.0)
    return replace(
        base,
        faults=(fault,),
        seconds=onset + (SLOW_SECONDS if kind in SLOWING else AFTER_SECONDS),
        telemetry=lost if dice.random() < 0.2 else Telemetry(),
        pauses=Pauses(),
        peers_raise=True,
    )


class RealSite(Site):
    """A collector, a fork server, and for each run an agent a node."""

    def __init__(self, folder: Path, rings: Path) -> None:
        super().__init__(folder, rings)
        self._agents: dict[int, subprocess.Popen[bytes]] = {}

    def run(self, scenario: Scenario) -> list[dict[str, Any]]:
        """Run a scenario; returns its incidents, in seconds since its ranks made steps."""
        rings = [self.rings / f"{scenario.job}-{node}" for node in range(scenario.nodes)]
        for node, folder in enumerate(rings):
            folder.mkdir()
            self._agents[node] = self._processes.start(
                f"agent-{node}", "agent", "--collector", self.url, "--ring-dir", str(folder),
                "--node", node_name(node), "--port", "0",
                "--spool", str(self.folder / f"spool-{scenario.job}-{node}"),
            )  # fmt: skip
        pids = self.launch(_plan(scenario, rings, self.folder))
        try:
            began = self._first_step(scenario.job)
            outside = Outside(scenario, pids, self._kill_agent)
            while time.time() < began + scenario.seconds:
                outside.tick(time.time() - began)
                time.sleep(_TICK_SECONDS)
            found = self.incidents(scenario.job)
        finally:
            kill(pids)
            for node in range(scenario.nodes):
                self._processes.stop(f"agent-{node}", 3.0)
        return [{**each, "opened_at": each["opened_at"] - began} for each in found]

    def _kill_agent(self, node: int) -> None:
        # At once: one that is asked to end reports first.
        self._agents[node].kill()

    def _first_step(self, job: str) -> float:
        """Wait until the job makes steps; returns the moment, Unix seconds."""
        until = time.time() + START_SECONDS
        while time.time() < until:
            known = self.job(job)
            if known is not None and (known.get("step") or 0) > 0:
                break
            time.sleep(0.1)
        return time.time()


def _plan(scenario: Scenario, rings: Sequence[Path], folder: Path) -> Plan:
    own = folder / scenario.job
    own.mkdir()
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
        folder=str(own),
        environ={ENV_NODE_RINGS: ":".join(map(str, rings))},
    )


def compared(seed: int, site: RealSite) -> dict[str, Any]:
    """One scenario, really and replayed, and whether the verdicts agree."""
    scenario = scenario_of(seed)
    truths = expected(scenario)
    real, replayed = match(truths, site.run(scenario)), match(truths, replay(scenario).incidents)
    found: dict[str, Any] = json_value(
        {
            "seed": seed,
            "faults": [str(fault) for fault in scenario.faults],
            "real": _document(real),
            "replay": _document(replayed),
            "differences": differences(real, replayed),
        }
    )
    return found


def differences(real: Matched, replayed: Matched) -> list[str]:
    """Where the verdicts on the same scenario are not as right; seconds may differ."""
    found = []
    for one, other in zip(real.answers, replayed.answers, strict=True):
        for name in ("found", "rank", "cause", "node"):
            if getattr(one, name) != getattr(other, name):
                said = f"{getattr(one, name)}, replayed {getattr(other, name)}"
                found.append(f"{one.fault}: {name} {said}")
    if bool(real.false) != bool(replayed.false):
        found.append(f"false incidents: {len(real.false)}, replayed {len(replayed.false)}")
    return found


def _document(matched: Matched) -> dict[str, Any]:
    return {
        "answers": [answer._asdict() for answer in matched.answers],
        "false": [brief(each) for each in matched.false],
    }


def main(words: Sequence[str]) -> int:
    """Run what is not in the file yet; returns 0: a table is no verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts --real", description=__doc__)
    parser.add_argument("--real", type=int, required=True, help="how many runs in all")
    parser.add_argument("--to", type=Path, default=Path("verdicts-real.jsonl"), metavar="FILE")
    asked = parser.parse_args(words)
    done = [json.loads(line) for line in _lines(asked.to)]
    seeds = range(len(done), asked.real)
    with (
        tempfile.TemporaryDirectory(prefix="stepwatch-real-") as made,
        tempfile.TemporaryDirectory(prefix="stepwatch-real-", dir="/dev/shm") as rings,
    ):
        site = RealSite(Path(made), Path(rings))
        try:
            site.start()
            for seed in seeds:
                done.append(compared(seed, site))
                with asked.to.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
                print(line(done[-1]), flush=True)
        finally:
            site.close()
    agree = sum(not one["differences"] for one in done)
    print(f"\nthe replay agrees with {agree} of {len(done)} real runs")
    return 0


def line(one: dict[str, Any]) -> str:
    """One run in words."""
    answers = [
        f"{each['fault']} {each['named'] or 'not found'} {_after(each['seconds'])}"
        for each in one["real"]["answers"]
    ]
    false = [f"FALSE {each}" for each in one["real"]["false"]]
    said = "; ".join([*answers, *false]) or "quiet"
    return f"{one['seed']}  {said}  {'; '.join(one['differences']) or 'agrees'}"


def _after(seconds: float | None) -> str:
    return "" if seconds is None or math.isnan(seconds) else f"after {seconds:.0f} s"


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
