"""One scenario from its seed to its result, as a JSON document."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwatch.collector.quantities import json_value

from .plan import FaultKind, Scenario
from .reported.replay import replay
from .sampler import sample, stretch
from .scored.limit import limit_of
from .scored.matching import brief, is_page, match
from .truth import expected


class Wanted(NamedTuple):
    """A scenario to run: its seed, further options, and the seconds between evaluations.

    A `long` one is a healthy job of up to many hours.
    """

    seed: int
    kind: str = ""
    healthy: bool = False
    long: bool = False
    every: int = 1

    def scenario(self) -> Scenario:
        """Return the scenario."""
        if self.long:
            return stretch(self.seed)
        return sample(self.seed, FaultKind(self.kind) if self.kind else None, healthy=self.healthy)


def run(wanted: Wanted) -> dict[str, Any]:
    """Replay a scenario and match its incidents with its truth."""
    scenario = wanted.scenario()
    truths, replayed = expected(scenario), replay(scenario, wanted.every)
    matched = match(truths, replayed.incidents)
    limits = {fault.kind.value: limit_of(scenario, fault) for fault in scenario.faults}
    document: dict[str, Any] = json_value(
        {
            "seed": wanted.seed,
            "wanted": wanted._asdict(),
            "healthy": not scenario.faults,
            "shape": scenario.shape.value,
            "ranks": scenario.ranks,
            "nodes": scenario.nodes,
            "pace": scenario.pace.value,
            "step_seconds": scenario.step_seconds,
            "seconds": scenario.seconds,
            "history": scenario.history.value,
            "pauses": _words(scenario.pauses),
            "loads": _words(scenario.loads),
            "telemetry": _words(scenario.telemetry),
            "faults": [_words(fault) for fault in scenario.faults],
            "answers": [
                {**answer._asdict(), "limit": limits.get(answer.fault)}
                for answer in matched.answers
            ],
            "false": [f"{brief(incident)}: {incident['summary']}" for incident in matched.false],
            "false_kinds": [incident["kind"] for incident in matched.false],
            "pages": matched.pages,
            "repeated": matched.repeated,
            "false_pages": [brief(incident) for incident in matched.false if is_page(incident)],
            "failures": replayed.failures,
            "cpu_seconds": replayed.cpu_seconds,
        }
    )
    return document


def _words(part: object) -> str:
    return str(part)
