"""Runs a scenario through the real collector, on a simulated clock."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS
from tests.verdicts.device.replay import ReplayClock
from tests.verdicts.scenario.course.exits import exits_of
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.history import earlier_runs
from tests.verdicts.scenario.plan import Scenario

from .segments import Agents

EPOCH_NS = 1_790_000_000 * NANOSECONDS
ARRIVED_SECONDS = 0.05
"""From the arrival of the agents' segments to the evaluation."""
_SHARED_MEMORY = Path("/dev/shm")


class Replayed(NamedTuple):
    """A replayed scenario.

    Args:
        incidents: documents of its and its earlier runs' incidents, in seconds since it began.
        cpu_seconds: processor time of the replay.
        failures: evaluations that failed.
    """

    incidents: list[dict[str, Any]]
    cpu_seconds: float
    failures: int = 0


Watch = Callable[[float, list[dict[str, Any]]], None]
"""Called after each evaluation with its second in the scenario, and the incidents."""


def replay(scenario: Scenario, every: int = 1, watch: Watch | None = None) -> Replayed:
    """Evaluate a scenario every `every` seconds of its time."""
    began = time.process_time()
    folder = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="stepwatch-scenario-", dir=folder) as directory:
        store, clock = Store.sqlite(Path(directory, "store.db")), ReplayClock()
        try:
            runs = earlier_runs(scenario)
            began_ns = (
                EPOCH_NS - round(max((run.seconds for run in runs), default=0.0)) * NANOSECONDS
            )
            clock.now_ns = began_ns
            service = Service(store, clock, objectives=_shipped(), saves_state=False)
            if runs:
                _together(service, clock, runs, began_ns, 0, every)
            has_attempt = any(run.job == scenario.job for run in runs)
            for number, (begins, attempt) in enumerate(attempts(scenario), int(has_attempt)):
                epoch_ns = EPOCH_NS + begins * NANOSECONDS
                callback = (
                    None if watch is None else partial(_show, store, scenario.job, begins, watch)
                )
                _together(service, clock, [attempt], epoch_ns, number, every, callback)
            names = dict.fromkeys([*(run.job for run in runs), scenario.job])
            incidents = [incident for name in names for incident in store.incidents.newest(name)]
        finally:
            store.close()
    return Replayed(
        [_since_began(incident) for incident in incidents],
        time.process_time() - began,
        service.evaluation_failures,
    )


@cache
def _shipped() -> Objectives:
    """Read the shipped objectives, once in each process."""
    return read_objectives()


def attempts(scenario: Scenario) -> list[tuple[int, Scenario]]:
    """Return the attempts of a scenario with the whole seconds at which they begin.

    A failed attempt is started again, without a fault.
    """
    ended = float(exits_of(scenario).end.max()) + scenario.restart_seconds
    if not ended < scenario.seconds:
        return [(0, scenario)]
    restart = math.ceil(ended)
    second = replace(
        scenario,
        faults=(),
        telemetry=replace(scenario.telemetry, killed_node=-1),
        seconds=scenario.seconds - restart,
    )
    return [(0, replace(scenario, seconds=restart - 1.0)), (restart, second)]


def _together(
    service: Service,
    clock: ReplayClock,
    runs: list[Scenario],
    epoch_ns: int,
    number: int,
    every: int,
    callback: Callable[[float], None] | None = None,
) -> None:
    """Run attempts of one number that begin together and take equally long."""
    agents = [Agents(run, Timeline(run), exits_of(run), epoch_ns, number) for run in runs]
    for delivered in zip(*(agent.deliveries(every) for agent in agents), strict=True):
        over = delivered[0][0]
        for _, body in delivered:
            if body:
                clock.now_ns = epoch_ns + round((over - ARRIVED_SECONDS) * NANOSECONDS)
                service.receive(body)
        clock.now_ns = epoch_ns + round(over * NANOSECONDS)
        service.evaluate()
        if callback is not None:
            callback(over)


def _show(store: Store, job: str, begins: float, watch: Watch, over: float) -> None:
    watch(begins + over, [_since_began(incident) for incident in store.incidents.newest(job)])


def _since_began(incident: dict[str, Any]) -> dict[str, Any]:
    began = EPOCH_NS / NANOSECONDS
    names = ("began_at", "opened_at", "last_seen_at", "resolved_at")
    return {
        **incident,
        **{name: None if incident[name] is None else incident[name] - began for name in names},
    }
