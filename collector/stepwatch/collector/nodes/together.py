"""Faults that many nodes have at the same time: the common cause or the probe is at fault. Pure.

`detect.node_fault` has the same rule for one job's nodes, and the limits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from stepwatch.collector.detect.node_fault.detector import SHARED_WORDS, is_together
from stepwatch.signals.node_facts.actions import Action
from stepwatch.signals.node_facts.catalogue import Severity
from stepwatch.signals.records import NodeFact

from .health import Health, State, named


class Together(NamedTuple):
    """A fact that `nodes` have at the same time, among `reporting` nodes that report."""

    fact: NodeFact
    code: int
    title: str
    nodes: tuple[str, ...]
    reporting: int

    @property
    def summary(self) -> str:
        """The conclusion in one line."""
        return (
            f"many at once: {len(self.nodes)} of {self.reporting} nodes have {self.title}; "
            f"likely one common cause (driver roll-out, fabric, cooling): {SHARED_WORDS}"
        )


def together(states: Mapping[str, State]) -> list[Together]:
    """Return the facts that too many reporting nodes share to be individual faults."""
    reporting = {
        name: state for name, state in states.items() if state.health is not Health.UNKNOWN
    }
    having: dict[tuple[NodeFact, int], dict[str, str]] = defaultdict(dict)
    for name, state in reporting.items():
        for fact in state.facts:
            if fact.severity is not Severity.EVIDENCE:
                having[fact.fact, fact.code][name] = fact.title
    return [
        Together(fact, code, next(iter(nodes.values())), tuple(sorted(nodes)), len(reporting))
        for (fact, code), nodes in sorted(having.items())
        if is_together(len(nodes), len(reporting))
    ]


def held_back(name: str, state: State, shared: list[Together]) -> State:
    """Return `state` with another action, if many nodes share its worst fact.

    The action is that of its worst unshared fact, or none.
    """
    many = {(fault.fact, fault.code): fault for fault in shared if name in fault.nodes}
    bad = [episode for episode in state.facts if episode.severity is not Severity.EVIDENCE]
    if not bad or (bad[0].fact, bad[0].code) not in many:
        return state
    worst = many[bad[0].fact, bad[0].code]
    why = f"{state.reason}; {len(worst.nodes)} of {worst.reporting} nodes have it at once"
    unshared = next((episode for episode in bad if (episode.fact, episode.code) not in many), None)
    if unshared is None:
        return state._replace(action=Action.NONE, reason=why)
    return state._replace(action=unshared.action, reason=f"{why}, and not {named(unshared)}")
