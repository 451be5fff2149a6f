"""Lists of many jobs as a collector answers them, with every value known."""

from __future__ import annotations

import math
from typing import Any

from stepwatch.collector.state.live import Withheld
from stepwatch.collector.web import withheld_view

NOW = 1_800_000_000.0
SLOW, LOST, FAILED, STOPPED = 17, 101, 202, 303
"""Numbers of the jobs that do not simply train."""
PROJECTS = ("language", "vision", "speech")
CLASSES = ("production", "research", "trial")


def fleet(count: int) -> list[dict[str, Any]]:
    """Return list entries: one job is slow, one unknown, two have ended, all others train."""
    return [entry(number) for number in range(count)]


def entry(number: int, **fields: Any) -> dict[str, Any]:
    """Return the list entry of a job: eight ranks to a node, and a pace of its own."""
    unknown = withheld_view.line(f"run-{number:04d}", Withheld("running", "", NOW))
    nodes = 1 + number % 12
    pace = [0.2 + number % 7 / 20 + 0.004 * math.sin(number + point) for point in range(32)]
    line = {
        **unknown,
        "attempt": 0,
        "reason": None,
        "since": None,
        "as_of": NOW,
        "step": 1_000 + 37 * number,
        "newest_record_at": NOW,
        "open_incidents": 0,
        "world_size": 8 * nodes,
        "devices": 8 * nodes,
        "nodes": {
            "count": nodes,
            "first": [f"gpu-{number % 40 + n:02d}" for n in range(min(nodes, 4))],
        },
        "job_class": CLASSES[number % 3],
        "project": PROJECTS[number // 3 % 3],
        "pace": pace,
        "goodput": {"today": 0.99 - number % 11 / 100, "run": 0.97},
        "cost_today": {"amount": 12.5 * nodes + number, "currency": "USD"},
        "verified_checkpoint": {
            "step": 1_000,
            "saved_at": NOW - 60 * (1 + number % 50),
            "reason": "",
        },
    }
    return {**line, **_unusual(number), **fields}


def _unusual(number: int) -> dict[str, Any]:
    if number == SLOW:
        return degraded(f"incident{number}")
    if number == LOST:
        return {"state": "unknown", "open_incidents": None, "step": None, "pace": []}
    return {"state": {FAILED: "failed", STOPPED: "finished"}.get(number, "running")}


def degraded(incident: str) -> dict[str, Any]:
    """Return the fields of a job that has just become slow."""
    worst = {
        "id": incident,
        "kind": "straggler",
        "summary": "rank 21 is slow in forward since step 8412: 331 ms, its peers take 158 ms",
        "severity": "alert",
        "began_at": NOW - 600.0,
        "throughput_lost_ratio": 0.47,
    }
    pace = [0.22] * 20 + [0.412] * 12
    return {"state": "degraded", "open_incidents": 1, "worst": worst, "pace": pace}
