"""The agents' view from outside at one moment: each rank's place, its process, its node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stepwatch.cli.simulate.rows import Position, host_rows, state_rows
from stepwatch.signals.arrays import Integers, Rows, Vector
from stepwatch.signals.records import ProcessState
from tests.verdicts.scenario.course.exits import Exits
from tests.verdicts.scenario.course.interruptions import STOPPED
from tests.verdicts.scenario.course.steps import Step, Steps
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.plan import FaultKind, Scenario

from . import rings

_RESIDENT_BYTES, _MEMORY_BYTES = 4 << 30, 64 << 30
_GROWTH_BYTES = 8 << 20
"""Bytes a second by which memory grows in a fault with effect 1."""
_HEARTBEAT_SECONDS = 0.25


class Views:
    """Makes the rows of the agents' own readings."""

    def __init__(
        self, scenario: Scenario, timeline: Timeline, exits: Exits, numbers: Integers
    ) -> None:
        self._scenario, self._timeline, self._exits = scenario, timeline, exits
        self._numbers = numbers
        self._waited = np.zeros(scenario.ranks)
        layout = timeline.layout
        named = layout.stages > 1 and scenario.names_stages
        stages = [layout.stage_of(rank) if named else -1 for rank in range(scenario.ranks)]
        self._stage = np.array(stages)
        self._entered = 0
        self._noise = np.random.Generator(np.random.SFC64([scenario.seed, 1]))

    def note(self, steps: Steps, selection: slice) -> None:
        """Add the waits of selected `steps`: later steps count their collectives as entered."""
        ends = steps.end[selection]
        self._entered += len(steps.calls) * len(ends)
        if not steps.calls:
            return
        waited = np.stack([call.exposed[selection] for call in steps.calls], axis=1)
        if not np.isfinite(ends).all():
            waited = np.where(np.isfinite(waited), waited, 0.0)
        per_call = waited.reshape(-1, len(self._waited))
        # Add step by step, so that the sum is the same for any number of steps at once.
        self._waited = np.add.accumulate(np.concatenate([self._waited[None], per_call]))[-1]

    def ranks(self, recent_steps: Iterable[Step], ranks: Integers, now: float, ring: Any) -> Rows:
        """Return the RANK_STATE rows of these ranks."""
        interruptions, ended = self._timeline.interruptions, self._exits.end[ranks]
        seen = np.minimum(now, ended)
        for stands in (interruptions.stands_from, interruptions.frozen_from):
            seen = np.minimum(seen, stands[ranks])
        step, position = self._position([*recent_steps], ranks, seen)
        # The waits of a step in progress are counted when the step is made.
        idle = np.array([interruptions.idle_seconds(rank, now) for rank in ranks.tolist()])
        idle += self._waited[ranks]
        idle += np.where(position.in_collective, now - position.entered_at, 0.0)
        beats = [max(0.0, self._beat(rank, now) - _HEARTBEAT_SECONDS) for rank in ranks.tolist()]
        since, entered_at, beat, end = rings.ns(
            np.array([position.since, position.entered_at, beats, ended])
        )
        inside = position.in_collective.tolist()
        return state_rows(
            ranks,
            position._replace(
                since=since, entered_at=entered_at, group=self._numbers[position.group]
            ),
            state=[self._state(*pair, now) for pair in zip(ranks.tolist(), inside, strict=True)],
            busy_seconds=np.maximum(0.0, now - idle),
            gone_ns=np.where(ended <= now, end, np.uint64(0)),
            exit_code=self._exits.code[ranks],
            time_ns=rings.ns(now),
            seq=ring[ranks] - 1,
            step=step,
            world=self._scenario.ranks,
            stage=self._stage[ranks],
            collective_bytes=np.where(position.entered, 1 << 26, 0),
            heartbeat_ns=beat,
            run_queue_seconds=0.004 * now,
            resident_bytes=self._resident(ranks, now),
        )

    def _position(
        self, steps: Sequence[Step], ranks: Integers, seen: Vector
    ) -> tuple[Integers, Position]:
        """Return the steps and positions of ranks at `seen` (ranks,)."""
        begun = sum(step.began[ranks] <= seen for step in steps)
        newest = np.maximum(begun, 1) - 1
        used, numbers, positions = sorted({*newest.tolist()}), [], []
        for step in (steps[index] for index in used):
            position = step.reached.find(ranks, seen)
            later_calls = sum(len(later.calls) for later in steps if later.number >= step.number)
            entered = self._entered - later_calls + position.entered
            positions.append(position._replace(entered=entered))
            numbers.append(step.number + (position.place == len(step.places) - 1))
        if len(used) == 1:
            return numbers[0], positions[0]
        at = np.searchsorted(used, newest), np.arange(len(ranks))
        return np.stack(numbers)[at], Position(
            *(np.stack(values)[at] for values in zip(*positions, strict=True))
        )

    def _beat(self, rank: int, now: float) -> float:
        """Return the time of a rank's last heartbeat; a stopped or gone rank sends none."""
        ended = float(self._exits.end[rank])
        fault = self._timeline.interruptions.lasting.get(rank)
        if fault is not None and fault.kind in STOPPED:
            ended = min(ended, fault.onset)
        return min(now, ended)

    def _state(self, rank: int, in_collective: int, now: float) -> ProcessState:
        if self._timeline.interruptions.stopped(rank, now):
            return ProcessState.STOPPED
        fault = self._timeline.interruptions.lasting.get(rank)
        asleep = fault is not None and fault.kind is not FaultKind.HANG_BUSY and now >= fault.onset
        return ProcessState.SLEEPING if asleep or in_collective else ProcessState.RUNNING

    def _resident(self, ranks: Integers, now: float) -> Integers:
        bytes_of_rank = np.full(self._scenario.ranks, float(_RESIDENT_BYTES))
        for fault in self._scenario.faults:
            if fault.kind is FaultKind.MEMORY_GROWTH:
                grown = fault.effect * _GROWTH_BYTES * max(0.0, now - fault.onset)
                bytes_of_rank[list(fault.ranks)] += grown
        noise = self._noise.integers(0, 1 << 22, len(ranks))
        return (bytes_of_rank[ranks] + noise).astype(np.int64)

    def host(self, ranks: Integers, now: float) -> Rows:
        """Return one HOST row of the ranks' node."""
        time_ns = rings.ns([now])
        rows = host_rows(time_ns, self._noise, memory_total_bytes=_MEMORY_BYTES)
        free = _MEMORY_BYTES - int(self._resident(ranks, now).sum())
        rows["memory_available_bytes"] = max(_MEMORY_BYTES // 64, free)
        return rows
