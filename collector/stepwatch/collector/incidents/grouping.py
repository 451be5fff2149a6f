"""Groups findings under their causes. Pure: neither the order of findings nor time matters.

Each finding looks for the one that explains it (`grouping.toml`); the end of that chain is its
cause. Rules between kinds form no cycle, and within a kind only an earlier finding (`_precedence`)
explains another, so every chain ends.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import NamedTuple

from stepwatch.collector.detect.finding import Finding
from stepwatch.signals.names import Cause, FindingKind

SAME_RANK, SAME_RANK_OR_NONE, SAME_NODE, ANYWHERE = (
    "same rank",
    "same rank or none",
    "same node",
    "anywhere",
)


class Rule(NamedTuple):
    """A finding of kind `cause` explains one of `symptoms`.

    The other keys are described in `grouping.toml`.
    """

    cause: FindingKind
    symptoms: frozenset[FindingKind]
    where: str
    because: frozenset[Cause] = frozenset()
    not_because: frozenset[Cause] = frozenset()
    symptom_causes: frozenset[Cause] = frozenset()
    excluded_causes: frozenset[Cause] = frozenset()
    phase: str = ""
    symptom_phase: str = ""
    same_cause: bool = False
    later: bool = False
    named_node: bool = False
    outgrown_at: float = math.inf


class Group(NamedTuple):
    """A cause and its symptoms; `is_current` is False for a remembered cause."""

    cause: Finding
    symptoms: tuple[Finding, ...]
    is_current: bool = True


class _Suspect(NamedTuple):
    finding: Finding
    node: str
    is_current: bool
    explains: bool


Identity = tuple[FindingKind, int, str]
_Places = dict[tuple[FindingKind, str, int | str], list[int]]


def _load() -> tuple[tuple[Rule, ...], int, float]:
    text = resources.files(__package__).joinpath("grouping.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    rules = tuple(
        Rule(
            cause=FindingKind(item["cause"]),
            symptoms=frozenset(map(FindingKind, item["symptoms"])),
            where=item["where"],
            because=frozenset(map(Cause, item.get("because", ()))),
            not_because=frozenset(map(Cause, item.get("not_because", ()))),
            symptom_causes=frozenset(map(Cause, item.get("of", ()))),
            excluded_causes=frozenset(map(Cause, item.get("not_of", ()))),
            phase=item.get("phase", ""),
            symptom_phase=item.get("symptom_phase", ""),
            same_cause=item.get("same_cause", False),
            later=item.get("later", False),
            named_node=item.get("named_node", False),
            outgrown_at=float(item.get("outgrown_at", math.inf)),
        )
        for item in document["rule"]
    )
    return rules, int(document["slack_steps"]), float(document["outgrown_margin"])


RULES, SLACK_STEPS, OUTGROWN_MARGIN = _load()


def grouped(
    findings: Iterable[Finding],
    remembered: Iterable[Finding] = (),
    nodes: Mapping[int, str] | None = None,
    open_since: Mapping[Identity, float] | None = None,
    *,
    over: bool = False,
) -> list[Group]:
    """Return one group per cause; every finding is in exactly one, as its cause or as a symptom.

    `remembered` are causes of open incidents without a current finding. They continue to explain
    their symptoms unless the attempt is `over`. A finding may explain them, but they never explain
    each other. Those without symptoms are left out. `nodes` names each rank's node. `open_since`
    marks the causes of open incidents: between equals they stay the cause.
    """
    nodes, since = nodes or {}, open_since or {}
    suspects = [
        _Suspect(
            finding, finding.node or nodes.get(finding.rank, ""), is_current, is_current or not over
        )
        for batch, is_current in ((findings, True), (remembered, False))
        for finding in batch
    ]
    suspects.sort(key=lambda item: (not item.is_current, _precedence(item.finding, since)))
    places = _places(suspects)
    parents = [_parent(index, suspects, places, since) for index in range(len(suspects))]
    symptoms: dict[int, list[Finding]] = defaultdict(list)
    for index, item in enumerate(suspects):
        root = _end(index, parents)
        if root != index:
            symptoms[root].append(item.finding)
    return [
        Group(item.finding, tuple(symptoms[index]), item.is_current)
        for index, item in enumerate(suspects)
        if parents[index] is None and (item.is_current or symptoms[index])
    ]


def identity(finding: Finding) -> Identity:
    """Return the identity of a finding within one attempt."""
    return finding.kind, finding.rank, finding.subject


def _precedence(finding: Finding, open_since: Mapping[Identity, float]) -> tuple[str | float, ...]:
    """Return the order between findings of one kind: the earliest comes first.

    For stragglers, the one already named comes first, then the costliest: several that began
    together are found a few steps apart.
    """
    straggler = finding.kind is FindingKind.STRAGGLER
    return (
        finding.kind.value,
        0 if straggler else finding.began_step,
        open_since.get(identity(finding), math.inf),
        -_finite_or_zero(finding.lost_ratio),
        -_finite_or_zero(finding.severity),
        finding.rank,
        finding.subject,
        finding.phase,
        finding.cause,
        finding.began_step,
        finding.summary,
    )


def _finite_or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _places(suspects: list[_Suspect]) -> _Places:
    """Return the positions of suspects by kind and place, in order of precedence."""
    places: _Places = defaultdict(list)
    for index, item in enumerate(suspects):
        kind = item.finding.kind
        places[kind, ANYWHERE, ""].append(index)
        if item.finding.rank >= 0:
            places[kind, SAME_RANK, item.finding.rank].append(index)
        if item.node:
            places[kind, SAME_NODE, item.node].append(index)
    return places


def _parent(
    index: int, suspects: list[_Suspect], places: _Places, open_since: Mapping[Identity, float]
) -> int | None:
    """Return the position of the finding that explains this one."""
    item = suspects[index]
    stands = identity(item.finding) in open_since
    for rule in RULES:
        if item.finding.kind not in rule.symptoms or not _may_be(item.finding, rule):
            continue
        for candidate in _near(item, rule, places):
            if candidate == index or not _explains(candidate, index, suspects, rule):
                continue
            if not _outgrows(
                item.finding, suspects[candidate].finding, rule.outgrown_at, stands=stands
            ):
                return candidate
    return None


def _may_be(finding: Finding, rule: Rule) -> bool:
    if rule.symptom_phase and finding.phase != rule.symptom_phase:
        return False
    return finding.cause not in rule.excluded_causes and (
        not rule.symptom_causes or finding.cause in rule.symptom_causes
    )


def _near(item: _Suspect, rule: Rule, places: _Places) -> list[int]:
    where, rank = rule.where, item.finding.rank
    if where == SAME_NODE:
        return places.get((rule.cause, SAME_NODE, item.node), []) if item.node else []
    if where == ANYWHERE or (where == SAME_RANK_OR_NONE and rank < 0):
        return places.get((rule.cause, ANYWHERE, ""), [])
    return places.get((rule.cause, SAME_RANK, rank), [])


def _explains(above: int, below: int, suspects: list[_Suspect], rule: Rule) -> bool:
    cause, symptom = suspects[above].finding, suspects[below].finding
    if not (
        suspects[above].explains and (suspects[above].is_current or suspects[below].is_current)
    ):
        return False
    if cause.kind is symptom.kind and not above < below:
        return False
    if cause.cause in rule.not_because or (rule.because and cause.cause not in rule.because):
        return False
    if rule.same_cause and cause.cause is not symptom.cause:
        return False
    if rule.named_node and not (cause.node and cause.node == symptom.node):
        return False
    if rule.phase and cause.phase != rule.phase:
        return False
    return _in_time(cause.began_step, symptom.began_step, rule.later)


def _outgrows(symptom: Finding, cause: Finding, times: float, *, stands: bool) -> bool:
    """Return whether a symptom costs more than its cause and is `times` as slow.

    A symptom that `stands` as its own incident keeps it without a cost margin, with a slowness
    margin, and while its slowness is unknown. Otherwise an unknown cost or slowness does not count.
    """
    if stands:
        slower = not symptom.ratio <= times / OUTGROWN_MARGIN * cause.ratio
        return math.isfinite(times) and slower and symptom.lost_ratio > cause.lost_ratio
    costs = symptom.lost_ratio > OUTGROWN_MARGIN * cause.lost_ratio
    return costs and symptom.ratio > times * cause.ratio


def _in_time(cause_step: int, symptom_step: int, later: bool) -> bool:
    """Return whether the cause step allows this symptom; an unknown step (below 0) does."""
    if cause_step < 0 or symptom_step < 0:
        return True
    return cause_step <= symptom_step + (0 if later else SLACK_STEPS)


def _end(index: int, parents: list[int | None]) -> int:
    """Return the end of the chain that begins at `index`."""
    above = parents[index]
    while above is not None:
        index, above = above, parents[above]
    return index
