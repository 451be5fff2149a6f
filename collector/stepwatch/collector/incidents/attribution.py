"""Attribution of a finding to its node's facts: cause, words and evidence. Pure."""

from __future__ import annotations

import math
import tomllib
from importlib import resources
from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Evidence, Finding
from stepwatch.collector.quantities import percent
from stepwatch.collector.state.newest_hosts import Neighbour
from stepwatch.collector.state.readings import Values
from stepwatch.collector.state.trackers.nodes.node_facts import View
from stepwatch.signals.names import Cause

NODE, RANK, DEVICE = "node", "rank", "device"
OPEN_CAUSES = frozenset(
    {
        Cause.UNKNOWN,
        Cause.SLOW_COMPUTE,
        Cause.SLOW_DATA,
        Cause.LAUNCH_BOUND,
        Cause.CPU_CONTENTION,
        Cause.SLOW_TRANSFER,
        Cause.SLOW_STORAGE,
        Cause.INTERPRETER_BLOCKED,
        Cause.NOT_ARRIVED,
        Cause.DEVICE_STUCK,
        Cause.ALL_RANKS_SLOWER,
    }
)
"""Causes from a detector that knows the effect but not the reason; other causes are final."""
MAX_EVIDENCE = 8
NEIGHBOUR_CPU_RATIO = 0.2
"""A noisy neighbour below a fifth of a CPU is not the reason for a rank's wait."""


class Rule(NamedTuple):
    """One fact that may be a cause, from `causes.toml`; `evidence` names its row."""

    cause: Cause
    fact: str
    scope: str
    least: float
    over_usual: float
    fits: tuple[str, ...]
    words: str
    evidence: str
    unit: str
    only_if_named: bool = False
    lowers_clocks: bool = False
    not_of: tuple[Cause, ...] = ()


class Measured(NamedTuple):
    """A fact on a finding's rank or node, and its usual value; NaN is unknown.

    `node` names the node if the finding names no rank.
    """

    rule: Rule
    value: float
    usual: float
    shared: bool
    node: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether it can be evaluated: it has a value, and a reference."""
        return not (math.isnan(self.value) or math.isnan(self.usual))

    @property
    def abnormal(self) -> bool:
        """Return whether it explains anything."""
        rule = self.rule
        beyond = self.value >= rule.least and self.value >= rule.over_usual * self.usual
        return self.is_known and beyond and not self.shared


def _load() -> tuple[Rule, ...]:
    text = resources.files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    return tuple(
        Rule(
            **{
                **item,
                "cause": Cause(item["cause"]),
                "fits": tuple(item["fits"]),
                "not_of": tuple(map(Cause, item.get("not_of", ()))),
            }
        )
        for item in tomllib.loads(text)["rule"]
    )


RULES = _load()


def attribute(finding: Finding, view: View, anomalous: frozenset[int] = frozenset()) -> Finding:
    """Return `finding` with the cause from the facts, "because ..." in its summary, and rows.

    `anomalous` ranks have their own findings and are not healthy peers. A finding that no fact
    explains keeps its cause, with the words that the facts are normal, or unknown.
    """
    rules = [rule for rule in RULES if _fits(rule, finding)]
    if not rules or finding.cause not in OPEN_CAUSES:
        return finding
    measured = [_measure(rule, finding, view, anomalous) for rule in rules]
    reasons = [item for item in measured if item.abnormal and _allowed(item.rule, finding)]
    named = _neighbour(finding, view)
    if reasons:
        first = reasons[0]
        drop = _clock_drop(first.rule, finding, view)
        because = f", because {_words(first)}{drop}{_culprit(first.rule, named)}"
        cause, shown = first.rule.cause, reasons
    elif finding.cause is Cause.CPU_CONTENTION:
        because = f", because it is ready to run and gets no CPU{_culprit(None, named)}"
        cause, shown = finding.cause, measured
    else:
        because, cause = _nothing(measured, view), finding.cause
        shown = sorted(measured, key=lambda item: not item.abnormal)
    rows = [_evidence(item) for item in shown if not math.isnan(item.value)][:MAX_EVIDENCE]
    if cause is Cause.CPU_CONTENTION and named is not None:
        rows.append(_neighbour_evidence(named))
    names = {item.name for item in finding.evidence}
    rows = [row for row in rows if row.name not in names]
    return finding._replace(
        cause=cause,
        summary=finding.summary + because,
        evidence=(*finding.evidence, *rows),
    )


def _words(reason: Measured) -> str:
    """Return the reason's words, with the node's name if the finding names no rank.

    Without a rank, "its" would have no referent.
    """
    if not reason.node:
        return reason.rule.words
    owner = "its node" if "its node" in reason.rule.words else "its"
    of_node = f"node {reason.node}" + ("" if owner == "its node" else "'s")
    return reason.rule.words.replace(owner, of_node, 1)


def _clock_drop(rule: Rule, finding: Finding, view: View) -> str:
    """Return the clock change in words, if the rule is about device clocks and both are known."""
    if not rule.lowers_clocks or not 0 <= finding.rank < len(view.now["clock_hertz"]):
        return ""
    clock, limit = (
        float(view.now[name][finding.rank]) / 1e6 for name in ("clock_hertz", "clock_limit_hertz")
    )
    return f", from {limit:.0f} to {clock:.0f} MHz" if 0 < clock < limit else ""


def _fits(rule: Rule, finding: Finding) -> bool:
    if finding.cause in rule.not_of:
        return False
    kind = finding.kind.value
    return kind in rule.fits or f"{kind}:{finding.phase}" in rule.fits


def _allowed(rule: Rule, finding: Finding) -> bool:
    return not rule.only_if_named or finding.cause is rule.cause


def _measure(rule: Rule, finding: Finding, view: View, anomalous: frozenset[int]) -> Measured:
    now, baseline = view.now[rule.fact], view.earlier[rule.fact]
    index, shared = _place(rule, finding, view, now)
    if index < 0:
        return Measured(rule, math.nan, math.nan, shared)
    is_peer = np.ones(len(now), dtype=np.bool_)
    is_peer[index] = False
    if rule.scope == NODE:
        sick = [int(view.node_at[rank]) for rank in anomalous if rank < len(view.node_at)]
    else:
        sick = [rank for rank in anomalous if rank < len(now)]
    is_peer[[number for number in sick if number >= 0]] = False
    usual = _median(now[is_peer]) if finding.rank >= 0 else math.nan
    if math.isnan(usual):
        usual = float(baseline[index])
    node = view.nodes[index] if rule.scope == NODE and finding.rank < 0 else ""
    return Measured(rule, float(now[index]), usual, shared, node)


def _place(rule: Rule, finding: Finding, view: View, now: Values) -> tuple[int, bool]:
    """Return the rank's or node's index, -1 if there is none, and whether its facts are shared.

    If no rank is an outlier, the worst node is used: it is compared with its own baseline.
    """
    rank = finding.rank
    if rule.scope != NODE:
        return (rank if 0 <= rank < len(now) else -1), False
    if 0 <= rank < len(view.node_at):
        used = np.unique(view.node_at[view.node_at >= 0])
        return int(view.node_at[rank]), len(used) < 2 and len(view.node_at) > 1
    if finding.node in view.nodes:
        return view.nodes.index(finding.node), False
    return (int(np.nanargmax(now)) if np.isfinite(now).any() else -1), False


def _median(values: Values) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else math.nan


def _nothing(measured: list[Measured], view: View) -> str:
    """Return the words if no fact explains it: normal or unknown, never one for the other."""
    relevant = [item for item in measured if item.rule.scope != DEVICE or view.devices_read]
    abnormal = [item for item in relevant if item.abnormal]
    if abnormal:
        words = abnormal[0].rule.words
        return f"; {words} {percent(abnormal[0].value)} of the time, which explains little of it"
    unknown = sorted({item.rule.cause.value for item in relevant if not item.is_known})
    if len(unknown) == len({item.rule.cause for item in relevant}):
        return "; node facts unknown"
    if unknown:
        return f"; the node facts that are known are normal; unknown: {', '.join(unknown)}"
    if any(item.shared and item.value >= item.rule.least for item in measured):
        return "; the facts of its rank are normal, its node's are shared by all ranks"
    return "; node facts are normal"


def _neighbour(finding: Finding, view: View) -> Neighbour | None:
    if not 0 <= finding.rank < len(view.node_at):
        return None
    index = int(view.node_at[finding.rank])
    neighbour = view.neighbours[index] if index >= 0 else None
    return (
        neighbour if neighbour is not None and neighbour.cpu_ratio >= NEIGHBOUR_CPU_RATIO else None
    )


def _culprit(rule: Rule | None, neighbour: Neighbour | None) -> str:
    if neighbour is None or (rule is not None and rule.cause is not Cause.CPU_CONTENTION):
        return ""
    return f": {neighbour.name} (pid {neighbour.pid}) uses {neighbour.cpu_ratio:.1f} CPUs beside it"


def _evidence(item: Measured) -> Evidence:
    unit = item.rule.unit
    if math.isnan(item.usual):
        against = "usual value unknown"
    else:
        usual = f"{item.usual:.0%}" if unit == "ratio" else f"{item.usual:.2f}"
        against = f"usual {usual}{', shared by all ranks' if item.shared else ''}"
    name = item.rule.evidence + (f" on {item.node}" if item.node else "")
    return Evidence(name, item.value, unit, against, reference=item.usual)


def _neighbour_evidence(neighbour: Neighbour) -> Evidence:
    name = f"noisy neighbour {neighbour.name}, pid {neighbour.pid}"
    return Evidence(name, neighbour.cpu_ratio, "CPUs", "the busiest process outside the ranks")
