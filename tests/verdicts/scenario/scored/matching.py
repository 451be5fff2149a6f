"""Matches the incidents of a scenario with its truth. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.spec import Severity
from stepwatch.collector.incidents.states import INFO, RESOLVED
from tests.verdicts.scenario.truth import Expected

from .sentence import untrue

SLACK_SECONDS = 1.0
"""Seconds that an incident may precede its fault: steps are dated by their ends."""
_FOLLOWS = frozenset(
    {"throughput-regression", "telemetry-lost", "hang", "pause", "pipeline-bubble", "data-stall"}
)
"""Kinds that may follow from a named fault, under any rank."""


_SLOWED = {"stopped-now-and-then": ("checkpoint-stall",)}
"""Further kinds on the fault's own rank: a process that is stopped in a save is late there."""


class Answer(NamedTuple):
    """How right the verdict on one fault is; None if an aspect does not count.

    Args:
        seconds: from the fault to the verdict.
        shows: seconds to the end of the first slowed step or save; NaN if no step alone shows it.
        beside: the marginal cost with the other faults.
        untrue: untrue numbers of the sentence; None if it has nothing to be compared with.
        ends: whether the fault ends.
        over: seconds from the fault's end to the incident's; infinite if the incident stays open,
            NaN if the fault does not end.
        price: the incident's lost device-seconds over the true ones.
    """

    fault: str
    required: bool
    stops: bool
    cost: float
    effect: float
    period: int
    found: bool
    rank: bool | None
    phase: bool | None
    cause: bool | None
    node: bool | None
    seconds: float
    named: str
    shows: float
    beside: float = math.nan
    untrue: list[str] | None = None
    ends: bool = False
    over: float = math.nan
    price: float = math.nan


class Matched(NamedTuple):
    """Answers on the faults of a scenario, its false incidents, and the number of false pages.

    `repeated` counts further incidents of a right kind about a named fault. They are not false, but
    an operator has to read them.
    """

    answers: list[Answer]
    false: list[dict[str, Any]]
    pages: int
    repeated: int


def match(wanted: Sequence[Expected], incidents: Iterable[dict[str, Any]]) -> Matched:
    """Each fault takes the best incident of a right kind; the rest follows from one, or is false.

    An incident follows from a fault only if the fault was named before. A fault is named when the
    first incident opens that says the same and later merges into another one: a rank that computes
    for ever is a pause before it is a hang.
    """
    sequence = sorted(incidents, key=lambda incident: incident["opened_at"])
    candidates = [incident for incident in sequence if not incident["merged_into"]]
    answers, named = [], list[tuple[Expected, float]]()
    for fault in wanted:
        fitting = [incident for incident in candidates if _names(incident, fault)]
        best = min(
            fitting,
            key=lambda incident: (_wrongs(incident, fault), incident["opened_at"]),
            default=None,
        )
        answers.append(_answer(fault, best))
        if best is not None:
            candidates.remove(best)
            named_at = _named_at(best, fault, sequence)
            answers[-1] = answers[-1]._replace(seconds=named_at - fault.begins)
            named.append((fault, named_at))
    false = [
        incident
        for incident in candidates
        if not any(_explained(incident, *pair) for pair in named)
    ]
    repeated = sum(
        incident not in false and any(incident["kind"] in fault.truth.kinds for fault, _ in named)
        for incident in candidates
    )
    return Matched(answers, false, sum(map(is_page, false)), repeated)


def is_page(incident: dict[str, Any]) -> bool:
    """Return whether an incident pages an operator; an informing one raises no alert at all."""
    return incident["severity"] != INFO and _SEVERITY.get(incident["alert"]) is Severity.PAGE


_SEVERITY = {alert.name: alert.severity for alert in ALERTS}


def _names(incident: dict[str, Any], fault: Expected) -> bool:
    in_time = incident["opened_at"] >= fault.begins - SLACK_SECONDS
    # A fault that need not be found is only known by its rank.
    rank_fits = fault.required or not fault.truth.ranks or incident["rank"] in fault.truth.ranks
    return incident["kind"] in fault.truth.kinds and in_time and rank_fits


def _named_at(
    incident: dict[str, Any], fault: Expected, sequence: Sequence[dict[str, Any]]
) -> float:
    """Return when the first part of `incident` in `sequence` opened that names the same."""
    parts = [
        part["opened_at"]
        for part in sequence
        if part["merged_into"] == incident["id"]
        and part["rank"] == incident["rank"]
        and _names(part, fault)
    ]
    return float(min([incident["opened_at"], *parts]))


def _wrongs(incident: dict[str, Any], fault: Expected) -> int:
    answer = _answer(fault, incident)
    return sum(aspect is False for aspect in (answer.rank, answer.node, answer.cause))


def _answer(fault: Expected, incident: dict[str, Any] | None) -> Answer:
    truth, is_found = fault.truth, incident is not None
    incident = incident or {}
    node = None
    if fault.nodes:
        text = f"{incident.get('node')} {incident.get('summary')}"
        node = any(name in text for name in fault.nodes)
    return Answer(
        fault=truth.fault,
        required=fault.required,
        stops=fault.stops,
        cost=fault.cost,
        effect=fault.effect,
        period=fault.period,
        found=is_found,
        rank=incident["rank"] in truth.ranks if is_found and truth.ranks else None,
        phase=incident["phase"] in truth.phases if is_found and truth.phases else None,
        cause=incident["cause"] in truth.causes if is_found else None,
        node=node if is_found else None,
        seconds=incident["opened_at"] - fault.begins if is_found else math.nan,
        named=brief(incident) if is_found else "",
        shows=fault.shows - fault.begins,
        beside=fault.marginal_cost,
        untrue=untrue(incident["summary"], fault.actual) if is_found and fault.actual else None,
        ends=math.isfinite(fault.ends),
        over=_over(incident, fault) if is_found else math.nan,
        price=_price(incident, fault) if is_found else math.nan,
    )


def _over(incident: dict[str, Any], fault: Expected) -> float:
    """Return the seconds from a fault's end to its incident's."""
    if math.isinf(fault.ends):
        return math.nan
    is_over = incident["state"] == RESOLVED
    return float(incident["resolved_at"]) - fault.ends if is_over else math.inf


def _price(incident: dict[str, Any], fault: Expected) -> float:
    """Return an incident's lost device-seconds over the true ones."""
    if not fault.lost_seconds > 0:
        return math.nan
    return float(incident.get("device_seconds_lost", math.nan)) / fault.lost_seconds


def _explained(incident: dict[str, Any], fault: Expected, named_at: float) -> bool:
    """Return whether an incident only follows from a fault that was named at `named_at`."""
    is_later = incident["opened_at"] >= named_at
    is_same = incident["kind"] in fault.truth.kinds | {
        "straggler",
        *_SLOWED.get(fault.truth.fault, ()),
    } and (incident["rank"] in fault.truth.ranks)
    return is_later and (incident["kind"] in _FOLLOWS or is_same)


def brief(incident: dict[str, Any]) -> str:
    """Return an incident in a few words."""
    return (
        f"{incident['kind']} rank {incident['rank']} {incident['phase']} {incident['cause']} "
        f"at {incident['opened_at']:.0f} s"
    )
