"""A pipeline schedule's unavoidable bubble, simulated from the schedule's own order.

Forward, input gradient and weight gradient take one unit each, a full backward two, and sending
takes nothing. The idle time that remains comes from the schedule, not from the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_UNITS = {"F": 1, "B": 2, "I": 1, "W": 1}
MAX_WORK = 1 << 16
"""Most pieces in a schedule to simulate; a larger one would delay the trainer's start."""


class Work(NamedTuple):
    """One piece: kind (F, B, I or W), stage and micro-batch."""

    kind: str
    stage: int
    microbatch: int


def _needs(work: Work, last_stage: int) -> list[tuple[str, int, int]]:
    stage, microbatch = work.stage, work.microbatch
    if work.kind == "F":
        return [("F", stage - 1, microbatch)] if stage else []
    if work.kind == "W":
        return [("I", stage, microbatch)]
    above = [("I", stage + 1, microbatch)] if stage < last_stage else []
    return [("F", stage, microbatch), *above]


def simulated_bubble(order: Mapping[int, Sequence[Work]]) -> float:
    """Return all ranks' idle share when each works through its list as soon as inputs are ready.

    Raises:
        ValueError: the lists wait for each other for ever.
    """
    last_stage = max(work.stage for row in order.values() for work in row)
    end_times: dict[tuple[str, int, int], int] = {}
    clock = dict.fromkeys(order, 0)
    queues = {rank: list(row) for rank, row in order.items()}
    while any(queues.values()):
        moved = False
        for rank, row in queues.items():
            while row and all(need in end_times for need in _needs(row[0], last_stage)):
                work = row.pop(0)
                ready = max((end_times[need] for need in _needs(work, last_stage)), default=0)
                clock[rank] = max(clock[rank], ready) + _UNITS[work.kind]
                # A full backward also produces the input gradient for which the stage before waits.
                end_times["I" if work.kind in "BI" else work.kind, work.stage, work.microbatch] = (
                    clock[rank]
                )
                moved = True
        if not moved:
            raise ValueError("the schedule's ranks wait for each other for ever")
    busy = sum(_UNITS[work.kind] for row in order.values() for work in row)
    return 1.0 - busy / (len(order) * max(clock.values()))


def _flattened(actions: Iterable[Any]) -> list[Work]:
    works: list[Work] = []
    for action in actions:
        if action is None:
            continue
        if parts := getattr(action, "sub_actions", None):
            works += _flattened(parts)
        elif (kind := action.computation_type.value) in _UNITS:
            works.append(Work(kind, action.stage_index, action.microbatch_index))
    return works


def _renumbered(row: list[Work]) -> list[Work]:
    """Return the same list with forwards counted from 0 on every stage.

    torch 2.13 numbers the forwards on 1F1B's last stage from 1 in the order that it
    publishes (not in the one that it runs): `Schedule1F1B._get_pipeline_order`.
    """
    first: dict[int, int] = {}
    for work in row:
        if work.kind == "F":
            first[work.stage] = min(first.get(work.stage, work.microbatch), work.microbatch)
    return [
        work._replace(microbatch=work.microbatch - first[work.stage]) if work.kind == "F" else work
        for work in row
    ]


def schedule_bubble(schedule: Any) -> float | None:
    """Return a torch pipeline schedule's bubble; None if it has no order, or too long a one.

    Raises:
        ValueError: the order never ends.
    """
    order = getattr(schedule, "pipeline_order", None)
    if not order or sum(map(len, order.values())) > MAX_WORK:
        return None
    return simulated_bubble(
        {rank: _renumbered(_flattened(actions)) for rank, actions in order.items()}
    )


def schedule_name(schedule: Any) -> str:
    """Return a torch pipeline schedule's class, stages and microbatches, if it has them."""
    counts = [
        f"{number} {unit}"
        for unit, name in (("stages", "_num_stages"), ("microbatches", "_n_microbatches"))
        if isinstance(number := getattr(schedule, name, None), int)
    ]
    return ", ".join([type(schedule).__name__, *counts])
