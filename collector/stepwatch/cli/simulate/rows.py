"""A course of steps as records, for the fleet, for verdict scenarios and for tests.

Arrays may have any axes; the maker of a course chooses them. `make_rows` makes the kinds that need
no calculation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.hooks.communication.groups import describe, group_number
from stepwatch.signals.arrays import AnyRows, Integers
from stepwatch.signals.records import (
    DTYPES,
    UNKNOWN_RANK,
    Kind,
    Op,
    Phase,
    ProcessState,
    StepFlag,
    make_rows,
    text_bytes,
)
from stepwatch.signals.version import version

JOB_CLASS = b"experiment"
_CPU_RATIO = 0.93
"""CPU time of a rank's process over the time in which it works."""
_POLL_SECONDS = 0.25
_MAJOR_FAULTS = 12.0
_GROUP_TEXT_BYTES = DTYPES[Kind.GROUP]["text"].itemsize


def loss_of(step: Any) -> Any:
    """Return the loss of a healthy run in its steps."""
    return 1.7 + 6.0 * (step + 10.0) ** -0.3


def step_rows(*shape: int, step: Any, spent_ns: Mapping[str, Any], **columns: Any) -> AnyRows:
    """Return STEP records; `spent_ns` holds the parts of a step by name.

    Without other `columns` their losses, gradients and flags are those of a healthy run.
    """
    healthy = {
        "loss": loss_of(step),
        "grad_norm": 1.0,
        "flags": np.where(np.asarray(step) == 0, StepFlag.FIRST, StepFlag(0)),
    }
    parts = {f"{name}_ns": values for name, values in spent_ns.items()}
    return make_rows(Kind.STEP, *shape, step=step, **parts, **(healthy | columns))


class Calls(NamedTuple):
    """Calls of one operation in one group, which a rank reports in one row a step.

    Args:
        records: records from this one to the one of its step, which comes last.
        group: the group's number, or one for each rank (ranks, 1).
        times: calls in a step.
        nbytes: bytes of all calls in a step.
        first_arrival_ns: moment of the rank's arrival at the first call.
        exposed_ns: time that the rank spent in all calls.
        longest_ns: time that it spent in the longest one.
    """

    records: int
    op: Op
    group: Any
    times: int
    nbytes: int
    first_arrival_ns: Any
    exposed_ns: Any
    longest_ns: Any


def call_rows(steps: AnyRows, calls: Sequence[Calls]) -> AnyRows:
    """Return COLLECTIVE records with the axes of STEP records `steps`, and one of `calls`."""
    table = make_rows(Kind.COLLECTIVE, *steps.shape, len(calls))
    for name in ("rank", "step", "time_ns"):
        table[name] = steps[name][..., None]
    for index, call in enumerate(calls):
        rows = table[..., index]
        rows["seq"] = steps["seq"] - np.uint64(call.records)
        rows["group"], rows["op"] = call.group, call.op
        rows["count"], rows["bytes"] = call.times, call.nbytes
        rows["first_arrival_ns"] = call.first_arrival_ns
        rows["exposed_ns"], rows["longest_ns"] = call.exposed_ns, call.longest_ns
    return table


class Group(NamedTuple):
    """A process group: its number as the hooks number it, its members in rising order."""

    number: int
    members: Integers
    text: bytes

    @classmethod
    def from_members(cls, members: Sequence[int]) -> Group:
        """Return the group of these ranks."""
        ranks = [*members]
        text = describe(ranks).encode()[:_GROUP_TEXT_BYTES]
        return cls(group_number(ranks), np.array(ranks), text)

    def rows(self, rank: Integers, **columns: Any) -> AnyRows:
        """Return the GROUP records of these members."""
        return make_rows(
            Kind.GROUP,
            *rank.shape,
            rank=rank,
            group=self.number,
            size=len(self.members),
            index=np.searchsorted(self.members, rank),
            text=self.text,
            **columns,
        )


class Place(NamedTuple):
    """A place in a step that ranks reach at `start` (ranks,), infinite if they never do.

    In a collective `groups` holds each rank's group (ranks,), or one for all.
    """

    start: Any
    phase: Phase
    op: Op = Op.OTHER
    groups: Any = None
    waits: bool = False


class Position(NamedTuple):
    """Positions of ranks in their steps; arrays (ranks,), or one value for all.

    Args:
        place: index of the rank's place in the step.
        phase: the phase.
        since: when the rank reached its place.
        waits: whether it waits in a pipeline.
        in_collective: whether it is in a collective.
        entered: number of collectives that it has entered.
        entered_at: when it entered the newest one, 0 before the first one.
        op: the operation of the newest one.
        group: the group of the newest one; `Places` has -1 before the first one.
    """

    place: Any
    phase: Any
    since: Any
    waits: Any = False
    in_collective: Any = False
    entered: Any = 0
    entered_at: Any = 0
    op: Any = Op.OTHER
    group: Any = 0


class Places:
    """The places of a step in their order; ranks skip a place of no length."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._starts = np.stack([place.start for place in places])  # (places, ranks)
        kinds, self._entries = [], np.zeros_like(self._starts)
        self._groups = np.full(self._starts.shape, -1)
        entered, op = 0, Op.OTHER
        for index, place in enumerate(places):
            if place.groups is not None:
                entered, op = entered + 1, place.op
                self._entries[index:], self._groups[index:] = place.start, place.groups
            kinds.append((place.phase, place.waits, place.groups is not None, entered, op))
        self._kinds = np.array(kinds)

    def find(self, ranks: Integers | slice, seen: Any) -> Position:
        """Return the positions of `ranks` at `seen` (ranks,), which are the last places reached.

        Moments have the unit of the places; `entered` counts from the step's beginning.
        """
        starts = self._starts[:, ranks]
        reached = starts <= seen
        reached[0] = True
        index = len(reached) - 1 - reached[::-1].argmax(axis=0)
        phase, waits, in_collective, entered, op = self._kinds.T[:, index]
        place = index, np.arange(len(index))
        since = np.minimum(starts[place], seen)
        entered_at, group = self._entries[:, ranks][place], self._groups[:, ranks][place]
        return Position(index, phase, since, waits, in_collective, entered, entered_at, op, group)


def state_rows(
    rank: Any,
    position: Position,
    *,
    state: Any,
    busy_seconds: Any,
    gone_ns: Any = 0,
    exit_code: Any = -1,
    **columns: Any,
) -> AnyRows:
    """Return the RANK_STATE records of `rank` (ranks,).

    Args:
        rank: the ranks.
        position: their positions; moments are monotonic nanoseconds, and groups have numbers.
        state: `ProcessState` of those that run.
        busy_seconds: seconds in which they worked.
        gone_ns: moments of their ends, 0 for those that run.
        exit_code: exit codes of those that ended.
        columns: other fields.
    """
    is_gone = np.asarray(gone_ns) > 0
    return make_rows(
        Kind.RANK_STATE,
        len(rank),
        rank=rank,
        phase=position.phase,
        waiting=position.waits,
        since_ns=position.since,
        in_collective=position.in_collective,
        collectives_entered=position.entered,
        collective_since_ns=position.entered_at,
        collective_op=position.op,
        collective_group=np.asarray(position.group) & 0xFFFF,
        process_state=np.where(is_gone, ProcessState.GONE, state),
        cpu_seconds=_CPU_RATIO * np.asarray(busy_seconds),
        gone_ns=gone_ns,
        exit_code=np.where(is_gone, exit_code, -1),
        **{"major_faults": _MAJOR_FAULTS, "job_class": JOB_CLASS, **columns},
    )


def host_rows(time_ns: Any, noise: np.random.Generator, **columns: Any) -> AnyRows:
    """Return the HOST records of quiet nodes, one for each element of `time_ns`."""
    shape = np.shape(time_ns)
    ratios = {"cpu_busy_ratio": noise.normal(0.35, 0.02, shape)}
    for name in ("cpu_steal", "cpu_pressure", "memory_pressure", "io_pressure"):
        ratios[f"{name}_ratio"] = noise.exponential(0.004, shape)
    return make_rows(
        Kind.HOST,
        *shape,
        rank=UNKNOWN_RANK,
        time_ns=time_ns,
        load_per_cpu=noise.normal(0.4, 0.02, shape),
        major_faults_per_second=0.0,
        **ratios,
        **columns,
    )


def agent_rows(time_ns: Any, flush_seconds: float, is_early: bool = False) -> AnyRows:
    """Return the AGENT records of healthy agents, one for each element of `time_ns`."""
    return make_rows(
        Kind.AGENT,
        *np.shape(time_ns),
        rank=UNKNOWN_RANK,
        time_ns=time_ns,
        flush_seconds=flush_seconds,
        early=is_early,
        poll_seconds=_POLL_SECONDS,
        spool_bytes=0,
        dropped_segments=0,
        held_segments=0,
        version=text_bytes(version(), DTYPES[Kind.AGENT]["version"].itemsize),
    )
