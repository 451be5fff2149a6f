"""The words for a pause: the blocking rank, its activity, its position and the cost."""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import Evidence, text_evidence
from stepwatch.collector.detect.hang import (
    Activity,
    RankSituation,
    Stall,
    cause_of,
    is_interpreter_held,
    line_row,
    op_name,
)
from stepwatch.collector.quantities import device_time
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import Phase, phase_name

_MARKED = {Phase.CHECKPOINT: "a checkpoint", Phase.EVAL: "an evaluation"}
_NAMED = 4


def summary(stall: Stall, holders: list[RankSituation]) -> str:
    """Return one line: duration, step, ranks, their activity and the wait's cost."""
    step = min(item.step for item in stall.ranks)
    stands = f"the job has made no step for {in_words(stall.seconds)}, in step {step}"
    if not holders:
        return f"{stands}: {_inside(stall)}; {_cost(stall)}"
    ranks = ranks_text([item.rank for item in holders])
    place = _place(stall, holders[0])
    if stall.over:
        have = "has" if len(holders) == 1 else "have"
        return (
            f"training is over, and {ranks} {have} not ended for {in_words(stall.seconds)}{place}: "
            f"{_does(holders[0])}; {_cost_of_end(stall)}"
        )
    doing = f"{_is_doing(stall, holders)} in {_phase_words(holders)}{place}"
    return f"{stands}: {ranks} {doing}; {_cost(stall)}"


def _inside(stall: Stall) -> str:
    """Return for example `all ranks are inside broadcast of group 0-3, and bytes move`."""
    places = stall.answer.complete
    where = f"inside {places[0].words}" if len(places) == 1 else "inside collectives or exchanges"
    carry = any(Work.BYTES in (item.work or Work.NONE) for item in stall.waiting)
    return f"all ranks are {where}, and {'bytes move' if carry else 'no bytes are seen to move'}"


def _is_doing(stall: Stall, holders: list[RankSituation]) -> str:
    verb = "is" if len(holders) == 1 else "are"
    if stall.activity is Activity.UNKNOWN:
        return (
            f"{verb} outside any collective, whether running is unknown: "
            "its agent reports no CPU time of its process,"
        )
    if any(is_interpreter_held(item) for item in holders):
        return f"{verb} outside any collective, in one call that holds the interpreter's lock,"
    work = Work.NONE
    for item in holders:
        work |= item.work or Work.NONE
    if Work.CPU in work:
        return f"{verb} running outside any collective"
    if not work:
        return f"{verb} outside any collective without using a CPU"
    return f"{verb} outside any collective, {_work_words(work)},"


def _work_words(work: Work) -> str:
    """Return for example `bytes move and its children are at work`."""
    parts = ["bytes move"] * (Work.BYTES in work)
    parts += ["its children are at work"] * (Work.CHILDREN in work)
    return " and ".join(parts)


def _does(item: RankSituation) -> str:
    """Return the activity of a training's last rank."""
    if item.work:
        return "it uses a CPU" if Work.CPU in item.work else _work_words(item.work)
    return "its activity is unknown" if item.work is None else cause_of(item, None)[1]


def _phase_words(ranks: list[RankSituation]) -> str:
    """Return the phase of the blocking ranks.

    A marked pause is named as such once it takes longer than earlier ones.
    """
    phases = {item.phase for item in ranks}
    if phases <= _MARKED.keys():
        marked = [name for phase, name in _MARKED.items() if phase in phases]
        return f"{' and '.join(marked)}, which takes longer than any before"
    if len(phases) == 1 and (phase := phases.pop()) != Phase.OTHER:
        return phase_name(phase)
    return "work that no hook names an evaluation or a checkpoint"


def _place(stall: Stall, rank: RankSituation) -> str:
    """Return a rank's position in the user's code, if its agent could read it."""
    diagnosis = stall.diagnostics.diagnoses.get(rank.rank)
    return (
        f" ({diagnosis.line} in {diagnosis.function})"
        if diagnosis is not None and diagnosis.line
        else ""
    )


def _cost(stall: Stall) -> str:
    """Return the cost so far."""
    if not stall.waiting:
        return "no rank waits for another"
    inside = next((item for item in stall.waiting if item.in_collective), None)
    where = "" if inside is None else f" in {op_name(inside.op)}"
    spent = device_time(stall.seconds * len(stall.waiting))
    return f"{len(stall.waiting)} of {len(stall.ranks)} ranks wait{where}: {spent} so far"


def _cost_of_end(stall: Stall) -> str:
    world = len(stall.ranks) + len(stall.other_ranks.ended)
    return f"the devices of {world} ranks idle: {device_time(stall.seconds * world)} so far"


def evidence(stall: Stall) -> list[Evidence]:
    """Return rows on the duration, the waiting ranks, and outside ranks' work and Python lines."""
    until = f"beyond {stall.hang_seconds:.0f} s it counts as a hang"
    rows = [
        Evidence("time without progress of any rank", stall.seconds, "seconds", until),
        Evidence("ranks waiting for others", len(stall.waiting), "ranks", f"of {len(stall.ranks)}"),
    ]
    for item in stall.outside[:_NAMED]:
        rows += _used(item)
    for item in stall.outside[:_NAMED]:
        diagnosis = stall.diagnostics.diagnoses.get(item.rank)
        if diagnosis is not None and diagnosis.line:
            rows.append(line_row(item.rank, diagnosis))
    return rows


def _used(item: RankSituation) -> list[Evidence]:
    """Return a rank's work by its counters; unknown is reported, never taken for none."""
    name = f"CPU time of rank {item.rank}"
    if math.isnan(item.cpu_ratio):
        against = "its agent does not see its process, or reads rarely"
        return [text_evidence(name, "unknown", against)]
    rows = [Evidence(name, item.cpu_ratio, "CPUs", "used or waited for in the newest seconds")]
    other_work = (item.work or Work.NONE) & ~Work.CPU
    if other_work:
        rows.append(
            text_evidence(f"rank {item.rank}", _work_words(other_work), "seen by its agent")
        )
    return rows
