"""Desync: ranks in one group enter different collectives, or the same one with other sizes.

The effect in torch depends on the backend. Gloo waits until its timeout for another operation and
aborts the process whose buffer is too small; NCCL hangs or mixes the numbers up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepwatch.collector.detect.finding import (
    NO_RANK,
    Confidence,
    Finding,
    build_finding,
    text_evidence,
)
from stepwatch.collector.detect.wait_graph import Link
from stepwatch.collector.state.trackers.diagnoses import Diagnosis, FlightEntry
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.phrases import ranks_text
from stepwatch.signals.records import OP_NAMES, WORLD_GROUP, Op

_SAME_SIZE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
"""Operations to which all members must pass equal sizes; all-to-all and gathers may be uneven."""
_COMPARABLE = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.BROADCAST)


_LINKS_NAMED = 4


class Entered(NamedTuple):
    """A rank's newest collective by its collective line, with its number among all collectives."""

    rank: int
    step: int
    phase: str
    group: int
    op: int
    number: int
    nbytes: int


class Mismatch(NamedTuple):
    """A disagreement between members: `entered_as` maps each rank to the collective it entered."""

    cause: Cause
    group: str
    number: int
    entered_as: Mapping[int, str]


def from_flight(diagnoses: Mapping[int, Diagnosis]) -> Mismatch | None:
    """Return the first collective on which a group's members disagree, by their flight recorders.

    Sibling groups may share their name; sizes are compared only if all ranks are known to be
    members of the same group.
    """
    entries_by_number: dict[tuple[str, int], dict[int, FlightEntry]] = {}
    for rank, diagnosis in diagnoses.items():
        for entry in diagnosis.flight:
            entries_by_number.setdefault((entry.group, entry.number), {})[rank] = entry
    for (group, number), entries in sorted(entries_by_number.items(), key=lambda item: item[0][1]):
        if len({entry.op for entry in entries.values()}) > 1:
            entered_as = {rank: entry.op for rank, entry in entries.items()}
            return Mismatch(Cause.MISMATCHED_ORDER, group, number, entered_as)
        same_size = next(iter(entries.values())).op.startswith(_SAME_SIZE)
        if (
            same_size
            and _is_one_group(group)
            and len({entry.sizes for entry in entries.values()}) > 1
        ):
            entered_as = {rank: f"{entry.op} of [{entry.sizes}]" for rank, entry in entries.items()}
            return Mismatch(Cause.MISMATCHED_SHAPE, group, number, entered_as)
    return None


def _is_one_group(label: str) -> bool:
    """Return whether a recorder's label names one group.

    It does if it lists members, or if it is the label for the group with all ranks.
    """
    return label.endswith("]") or label.split(" ")[0] == WORLD_GROUP


def from_lines(entered: list[Entered], groups: Mapping[int, str]) -> Mismatch | None:
    """Return ranks whose newest collectives share a number and group but differ in size.

    The collective line outlives its process, so this also finds ranks that died from the mismatch.
    """
    by_place: dict[tuple[int, int, int], dict[int, int]] = {}
    for item in entered:
        if item.nbytes and item.op in _COMPARABLE:
            place = (item.group, item.op, item.number)
            by_place.setdefault(place, {})[item.rank] = item.nbytes
    for (group, op, number), sizes in sorted(by_place.items()):
        if len(set(sizes.values())) > 1:
            entered_as = {rank: f"{OP_NAMES[op]} of {size} bytes" for rank, size in sizes.items()}
            name = groups.get(group, str(group))
            return Mismatch(Cause.MISMATCHED_SHAPE, name, number, entered_as)
    return None


def from_cycle(cycle: Sequence[Link], entered: list[Entered], ago: float) -> Finding | None:
    """Return the finding on collectives that wait for each other's ranks; None without a cycle.

    It names a rank if exactly one rank is alone inside one collective while each other collective
    holds several ranks.
    """
    if not cycle:
        return None
    single_ranks = [link.ranks[0] for link in cycle if len(link.ranks) == 1]
    rank = single_ranks[0] if len(single_ranks) == 1 else NO_RANK
    entered_by_rank = {item.rank: item for item in entered}
    step = min((item.step for item in entered), default=0)
    words = "; ".join(link.words for link in cycle[:_LINKS_NAMED])
    orders = len({link.place.number for link in cycle})
    groups_label = f"{orders} groups" if orders > 1 else f"group {cycle[0].place.group}"
    return build_finding(
        kind=FindingKind.DESYNC,
        rank=rank,
        phase=entered_by_rank[rank].phase if rank in entered_by_rank else "other",
        cause=Cause.MISMATCHED_ORDER,
        summary=f"ranks of {groups_label} wait for each other in a circle, in step {step}: {words}",
        began_step=step,
        began_ago_seconds=ago,
        lost_ratio=1.0,
        evidence=[
            text_evidence(
                f"{link.place.words} has entered",
                ranks_text(link.ranks),
                f"{ranks_text(link.missing)} did not, and is waited on",
            )
            for link in cycle[:_LINKS_NAMED]
        ],
        confidence=Confidence.CERTAIN,
    )


def finding(mismatch: Mismatch, entered: list[Entered], ago: float) -> Finding:
    """Return the finding on a mismatch.

    It names the rank that differs from the majority, if exactly one rank does.
    """
    counts = Counter(mismatch.entered_as.values()).most_common()
    differing = sorted(
        rank for rank, entered_as in mismatch.entered_as.items() if entered_as != counts[0][0]
    )
    tied = len(counts) > 1 and counts[0][1] == counts[1][1]
    rank = NO_RANK if tied or len(differing) != 1 else differing[0]
    entered_by_rank = {item.rank: item for item in entered}
    step = min((item.step for item in entered), default=0)
    phase = entered_by_rank[rank].phase if rank in entered_by_rank else "other"
    texts = [
        f"{ranks_text([rank for rank, name in mismatch.entered_as.items() if name == text])} {text}"
        for text, _ in counts[:4]
    ]
    summary = (
        f"ranks of group {mismatch.group} entered different collectives as #{mismatch.number}, "
        f"in step {step}: {', '.join(texts)}"
    )
    evidence = [
        text_evidence(
            f"rank {member} entered", entered_as, "all members of a group must enter the same"
        )
        for member, entered_as in sorted(mismatch.entered_as.items())[:16]
    ]
    return build_finding(
        kind=FindingKind.DESYNC,
        rank=rank,
        phase=phase,
        cause=mismatch.cause,
        summary=summary,
        began_step=step,
        began_ago_seconds=ago,
        lost_ratio=1.0,
        evidence=evidence,
    )
