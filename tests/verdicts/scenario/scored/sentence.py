"""Whether the numbers in the sentence of an incident are true of the fault that it names. Pure."""

from __future__ import annotations

import re

from stepwatch.collector.detect.finding import NO_RANK
from tests.verdicts.scenario.actual import Actual

SINCE_SECONDS = 10.0
"""How far the step that it began in may be from the first one that the fault hits: what is older
than the newest steps is known by stretches of so many seconds."""
RATIO_SHARE = 0.25
"""How far the times over its peers may be off, as a share of what the fault adds."""
LOST_SHARE, LOST_POINTS = 0.25, 0.05
"""How far the share of the throughput may be off: as a share of it, or by so much; a sentence that
gives an interval is right where that holds it."""
_INTERVAL = re.compile(r"throughput \((\d+)% to (\d+)%\)")
_NUMBERS = {
    "ratio": re.compile(r"\((\d+(?:\.\d+)?)x\)"),
    "lost": re.compile(r"lost (\d+)% of its throughput"),
    "since": re.compile(r"since step (\d+)"),
    "rank": re.compile(r"^rank (\d+) "),
}


def numbers(summary: str) -> dict[str, float]:
    """The numbers that a sentence says, by what they are of."""
    matches = {name: pattern.search(summary) for name, pattern in _NUMBERS.items()}
    return {name: float(match[1]) for name, match in matches.items() if match is not None}


def untrue(summary: str, truth: Actual) -> list[str]:
    """What a sentence says that is not true, as `name said/true`; what it leaves out is no lie."""
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
