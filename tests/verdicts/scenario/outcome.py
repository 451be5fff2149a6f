"""One scenario from its seed to what came of it, as a JSON document."""

from __future__ import annotations

from typing import Any, NamedTuple

from stepwatch.collector.quantities import json_value

from .plan import FaultKind
from .reported.replay import replay
from .sampler import sample
from .scored.matching import brief, is_page, match
from .truth import expected


class Wanted(NamedTuple):
    """A scenario to run: its seed, and what is asked of it beyond that."""

    seed: int
    kind: str = ""
    healthy: bool = False


def run(wanted: Wanted) -> dict[str, Any]:
    """Replay a scenario and match what was found with what is true."""
    kind = FaultKind(wanted.kind) if wanted.kind else None
    scenario = sample(wanted.seed, kind, healthy=wanted.healthy)
    truths, replayed = expected(scenario), replay(scenario)
    matched = match(truths, replayed.incidents)
    document: dict[str, Any] = json_value(
        {
            "seed": wanted.seed,
            "healthy": not scenario.faults,
            "shape": scenario.shape.value,
            "ranks": scenario.ranks,
            "nodes": scenario.nodes,
            "pace": scenario.pace.value,
            "step_seconds": scenario.step_seconds,
            "seconds": scenario.seconds,
            "pauses": _words(scenario.pauses),
            "telemetry": _words(scenario.telemetry),
            "faults": [_words(fault) for fault in scenario.faults],
            "answers": [answer._asdict() for answer in matched.answers],
            "false": [f"{brief(each)}: {each['summary']}" for each in matched.false],
            "false_kinds": [each["kind"] for each in matched.false],
            "pages": matched.pages,
            "repeated": matched.repeated,
            "false_pages": [brief(each) for each in matched.false if is_page(each)],
            "cpu_seconds": replayed.cpu_seconds,
        }
    )
    return document


def _words(part: object) -> str:
    return str(part)
