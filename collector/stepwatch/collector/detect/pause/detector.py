"""Pause: no rank makes progress, but what holds the job up runs, or nobody waits for it.

An evaluation or a save that no hook recognises looks like this, and so does one that takes much
longer than those before. It becomes a hang, which pages,
once it has lasted longer than `hang` allows a pause; until then it is a ticket after minutes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepwatch.collector.detect.finding import (
    NO_RANK,
    Evidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.detect.hang import Activity, RankSituation, Stall, op_name
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import Phase, phase_name
from stepwatch.signals.thresholds import load

_DOES = {
    Activity.RUNNING: "running outside any collective",
    Activity.IDLE: "outside any collective without using a CPU",
    Activity.UNKNOWN: "outside any collective, whether running is unknown: "
    "its agent reports no CPU time of its process,",
}
_MARKED = {Phase.CHECKPOINT: "a checkpoint", Phase.EVAL: "an evaluation"}


class Thresholds(NamedTuple):
    """When a pause is worth a ticket; see `thresholds.toml`."""

    least_seconds: float
    least_waiting_seconds: float


LIMITS = load(__package__, Thresholds)
"""The shipped thresholds."""


def detect(stall: Stall | None, limits: Thresholds) -> list[Finding]:
    """At most one finding: a stall that was no hang from its beginning, and has lasted long.

    It stays a finding beyond `Stall.hang_seconds`: the hang that is found then explains it.
    """
    if stall is None or stall.hang_seconds <= stall.allowed_seconds or not stall.outside:
        return []  # without a rank outside, who holds the job up is not observed
    least = limits.least_waiting_seconds if stall.waiting else limits.least_seconds
    return [_finding(stall)] if stall.seconds >= least else []


def _finding(stall: Stall) -> Finding:
    step = min(item.step for item in stall.ranks)
    # One that does not run may wait for one that does.
    runs = [item for item in stall.outside if item not in stall.idle] or stall.outside
    who = ranks_text([item.rank for item in runs])
    named = runs[0] if len(runs) == 1 < len(stall.ranks) else None
    verb = "is" if len(runs) == 1 else "are"
    summary = (
        f"the job has made no step for {in_words(stall.seconds)}, in step {step}: {who} {verb} "
        f"{_DOES[stall.activity]} in {_what(runs)}{_place(stall, runs[0])}; {_cost(stall)}"
    )
    return build_finding(
        kind=FindingKind.PAUSE,
        cause=Cause.BUSY if stall.activity is Activity.RUNNING else Cause.UNKNOWN,
        summary=summary,
        rank=NO_RANK if named is None else named.rank,
        phase="other" if named is None else phase_name(named.phase),
        began_step=step,
        began_ago_seconds=stall.seconds,
        severity=stall.seconds,
        lost_ratio=len(stall.waiting) / len(stall.ranks) if stall.waiting else math.nan,
        evidence=_evidence(stall),
    )


def _what(ranks: list[RankSituation]) -> str:
    """What the ranks that hold the job up are in: an evaluation or a save that is marked is a stall
    only once it takes much longer than those before."""
    phases = {item.phase for item in ranks}
    if not phases <= _MARKED.keys():
        return "what no hook names an evaluation or a checkpoint"
    marked = [name for phase, name in _MARKED.items() if phase in phases]
    return f"{' and '.join(marked)}, which takes more than ten times as long as any before"


def _place(stall: Stall, rank: RankSituation) -> str:
    """Where a rank is in the user's code, if the agent could ask it."""
    found = stall.asked.diagnoses.get(rank.rank)
    return f" ({found.line} in {found.function})" if found is not None and found.line else ""


def _cost(stall: Stall) -> str:
    """What it costs so far."""
    if not stall.waiting:
        return "no rank waits for another"
    hours = stall.seconds * len(stall.waiting) / 3600
    inside = next((item for item in stall.waiting if item.in_collective), None)
    where = "" if inside is None else f" in {op_name(inside.op)}"
    return (
        f"{len(stall.waiting)} of {len(stall.ranks)} ranks wait{where}: "
        f"{hours:.2f} device-hours so far"
    )


def _evidence(stall: Stall) -> list[Evidence]:
    until = f"beyond {stall.hang_seconds:.0f} s it counts as a hang"
    rows = [
        Evidence("time without progress of any rank", stall.seconds, "seconds", until),
        Evidence("ranks waiting for others", len(stall.waiting), "ranks", f"of {len(stall.ranks)}"),
        *(_used(item) for item in stall.outside[:4]),
    ]
    for item in stall.outside[:4]:
        found = stall.asked.diagnoses.get(item.rank)
        if found is not None and found.line:
            text = f"{found.line} in {found.function}"
            rows.append(text_evidence(f"Python line of rank {item.rank}", text, found.stack))
    return rows


def _used(item: RankSituation) -> Evidence:
    """A rank's CPU time since it last moved; unknown is said, never taken for none."""
    name, against = f"CPU time of rank {item.rank}", "used or waited for since it last moved"
    if math.isnan(item.cpu_ratio):
        return text_evidence(name, "unknown", "its agent does not see its process, or reads rarely")
    return Evidence(name, item.cpu_ratio, "CPUs", against)
