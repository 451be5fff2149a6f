"""Verdicts on a fault that ended, and their times: one row of the table."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepwatch.collector.incidents.model import Incident, incident_from
from stepwatch.collector.incidents.states import OPEN
from tests.verdicts.scenario.actual import Actual
from tests.verdicts.scenario.effects import Effect, effects
from tests.verdicts.scenario.plan import Fault, FaultKind, Scenario
from tests.verdicts.scenario.reported.replay import replay
from tests.verdicts.scenario.scored.sentence import untrue

from .cases import ONSET, Case


class Row(NamedTuple):
    """One row of the table; its first three fields are the case's.

    Args:
        opened: seconds from the fault's beginning to its first incident; NaN without one.
        ended: seconds from the fault's end to its last incident's end; NaN without one, infinite if
            it stays open.
        incidents: number of incidents.
        notices: number of times an incident opened, changed its cause or ended.
        causes: number of times an incident changed its cause.
        opening: untrue numbers in the sentences at the opening.
        end: untrue numbers in the sentences at the end.
        price: device-seconds that incidents call lost, over the lost ones.
        whole_job: number of incidents about no single rank: saves take 29 % of the time even
            without a fault. The other fields do not include them.
    """

    place: str
    times: float
    lasts: float
    opened: float
    ended: float
    incidents: int
    notices: int
    causes: int
    opening: list[str]
    end: list[str]
    price: float
    whole_job: int


@dataclass
class _Story:
    """Incidents as they change, evaluation after evaluation."""

    incidents: dict[str, Incident] = field(default_factory=dict)
    opening: dict[str, str] = field(default_factory=dict)
    transitions: list[str] = field(default_factory=list)
    whole_job: set[str] = field(default_factory=set)

    def take(self, _: float, documents: list[dict[str, Any]]) -> None:
        """Add the incidents after an evaluation."""
        every = [incident_from(document) for document in documents]
        moved = [incident for incident in every if incident.rank >= 0]
        self.whole_job |= {incident.id for incident in every if incident.rank < 0}
        for incident in moved:
            self.transitions += _transitions(self.incidents.get(incident.id), incident)
            self.incidents[incident.id] = incident
            self.opening.setdefault(incident.id, incident.summary)


def _transitions(previous: Incident | None, current: Incident) -> list[str]:
    was_open = previous is not None and previous.state == OPEN
    if current.state != OPEN:
        return ["resolved"] if was_open else []
    if previous is None or not was_open:
        return ["opened"]
    return ["changed-cause"] if previous.cause != current.cause else []


def row_of(case: Case) -> Row:
    """Replay a case and summarize its incidents."""
    scenario, story = case.scenario(), _Story()
    replay(scenario, watch=story.take)
    incidents = [incident for incident in story.incidents.values() if not incident.merged_into]
    opened = min((incident.opened_at for incident in story.incidents.values()), default=math.nan)
    ends = [
        math.inf if incident.state == OPEN else float(incident.resolved_at or 0.0)
        for incident in incidents
    ]
    actual = effects(scenario)
    lost_seconds = sum(incident.device_seconds_lost for incident in incidents)
    return Row(
        *case,
        opened - ONSET,
        max(ends, default=math.nan) - case.over,
        len(incidents),
        len(story.transitions),
        story.transitions.count("changed-cause"),
        [
            text
            for incident in incidents
            for text in _untrue(incident, story.opening[incident.id], scenario, actual)
        ],
        [
            text
            for incident in incidents
            for text in _untrue(incident, incident.summary, scenario, actual)
        ],
        lost_seconds
        / max(sum(effect.seconds for effect in actual.values()) * scenario.ranks, 1e-9),
        len(story.whole_job),
    )


def _untrue(
    incident: Incident, summary: str, scenario: Scenario, actual: dict[Fault, Effect]
) -> list[str]:
    """Return an incident's untrue figures, compared with the best fitting turn of its rank."""
    fitting = [fault for fault in scenario.faults if incident.rank in (*fault.ranks, -1)]
    wrong = [untrue(summary, _actual_of(fault, actual[fault], scenario)) for fault in fitting]
    return min(wrong, key=len, default=[f"rank {incident.rank}: no fault"])


def _actual_of(fault: Fault, took: Effect, scenario: Scenario) -> Actual:
    ratio = fault.effect if fault.kind is not FaultKind.CHECKPOINT_STALL else math.nan
    return Actual(fault.ranks[0], took.first_step, scenario.step_seconds, ratio, took.lost)
