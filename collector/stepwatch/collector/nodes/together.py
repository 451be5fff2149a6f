"""Many nodes with one fault at once: what they share is at fault, or the probe. Pure.

`detect.node_fault` has the same for the nodes of one job, and the numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from stepwatch.collector.detect.node_fault.detector import SHARED_WORDS, is_together
from stepwatch.signals.node_facts import Action, Severity
from stepwatch.signals.records import NodeFact

from .health import Health, State


class Together(NamedTuple):
    """A fact that `nodes` have at once, of `reporting` nodes that report."""

    fact: NodeFact
    code: int
    title: str
    nodes: tuple[str, ...]
    reporting: int

    @property
    def summary(self) -> str:
        """What that means, in one line."""
        return (
            f"many at once: {len(self.nodes)} of {self.reporting} nodes have {self.title}; "
            f"likely one common cause (driver roll-out, fabric, cooling): {SHARED_WORDS}"
        )


def together(states: Mapping[str, State]) -> list[Together]:
    """What too many of the nodes that report have at once to be faults of their own."""
    reporting = {name: each for name, each in states.items() if each.health is not Health.UNKNOWN}
    having: dict[tuple[NodeFact, int], dict[str, str]] = defaultdict(dict)
    for name, each in reporting.items():
        for fact in each.facts:
            if fact.severity is not Severity.EVIDENCE:
                having[fact.fact, fact.code][name] = fact.title
    return [
        Together(fact, code, next(iter(nodes.values())), tuple(sorted(nodes)), len(reporting))
        for (fact, code), nodes in sorted(having.items())
        if is_together(len(nodes), len(reporting))
    ]


def held_back(name: str, state: State, shared: list[Together]) -> State:
    """`state`, without an action of its own where its worst fact is one that many nodes have."""
    for each in shared:
        if name in each.nodes and _is_worst(state, each):
            why = f"{state.reason}; {len(each.nodes)} of {each.reporting} nodes have it at once"
            return state._replace(action=Action.NONE, reason=why)
    return state


def _is_worst(state: State, shared: Together) -> bool:
    return (state.facts[0].fact, state.facts[0].code) == (shared.fact, shared.code)
