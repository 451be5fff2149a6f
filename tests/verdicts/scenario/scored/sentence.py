"""Compares the numbers in an incident's sentence with the true ones of its fault. Pure."""

from __future__ import annotations

import re

from stepwatch.collector.detect.finding import NO_RANK
from tests.verdicts.scenario.actual import Actual

SINCE_SECONDS = 10.0
"""Tolerance of the first step, in seconds: the past before the newest steps is known only by
stretches of this length.
"""
RATIO_SHARE = 0.25
"""Tolerance of the ratio to the peers, as a share of the time that the fault adds."""
LOST_SHARE, LOST_POINTS = 0.25, 0.05
"""Tolerance of the lost throughput: a share of it, or so many points. A sentence with an interval
is right if the interval holds the true value.
"""
_INTERVAL = re.compile(r"throughput \((\d+)% to (\d+)%\)")
_NUMBERS = {
    "ratio": re.compile(r"\((\d+(?:\.\d+)?)x\)"),
    "lost": re.compile(r"lost (\d+)% of its throughput"),
    "since": re.compile(r"since step (\d+)"),
    "rank": re.compile(r"^rank (\d+) "),
}


def numbers(summary: str) -> dict[str, float]:
    """Return the numbers of a sentence by their name."""
    matches = {name: pattern.search(summary) for name, pattern in _NUMBERS.items()}
    return {name: float(match[1]) for name, match in matches.items() if match is not None}


def untrue(summary: str, truth: Actual) -> list[str]:
    """Return the untrue numbers of a sentence as `name said/true`; a missing one is not untrue."""
    figures = numbers(summary)
    lost = 100.0 * truth.lost
    allowed = {
        "rank": (float(truth.rank), 0.0),
        "since": (float(truth.first_step), SINCE_SECONDS / truth.step_seconds),
        "ratio": (truth.ratio, RATIO_SHARE * (truth.ratio - 1.0) + 0.05),
        "lost": (lost, max(LOST_SHARE * lost, 100.0 * LOST_POINTS)),
    }
    if truth.rank == NO_RANK:
        del allowed["rank"]
    interval = _INTERVAL.search(summary)
    if interval is not None and float(interval[1]) - 1 <= lost <= float(interval[2]) + 1:
        del allowed["lost"]
    return [
        f"{name} {figures[name]:g}/{value:.3g}"
        for name, (value, most) in allowed.items()
        if name in figures and abs(figures[name] - value) > most
    ]
