"""The agents' view from outside at one moment: each rank's place, its process, its node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import UNKNOWN_RANK, Kind, Op, Phase, ProcessState, text_bytes
from stepwatch.signals.version import version
from tests.verdicts.scenario.course.exits import Exits
from tests.verdicts.scenario.course.steps import Step, Steps
from tests.verdicts.scenario.course.timeline import Timeline
from tests.verdicts.scenario.plan import FaultKind, Scenario

from . import rings

_CPU_RATIO = 0.93
_RESIDENT_BYTES, _MEMORY_BYTES = 4 << 30, 64 << 30
_GROWTH_BYTES = 8 << 20
"""Bytes a second by which memory grows in a fault with effect 1."""
_HEARTBEAT_SECONDS = 0.25
FLUSH_SECONDS = 1.0


class Standing(NamedTuple):
    """The place of one rank."""

    step: int
    phase: Phase
    since: float
    op: Op
    group: int
    waits: bool
    in_collective: bool
    entered: int
    entered_at: float


class Views:
    """Makes the rows of the agents' own readings."""

    def __init__(
        self, scenario: Scenario, timeline: Timeline, exits: Exits, numbers: Sequence[int]
    ) -> None:
        self._scenario, self._timeline, self._exits = scenario, timeline, exits
        self._numbers = numbers
        self._waited = np.zeros(scenario.ranks)
        layout = timeline.layout
        named = layout.stages > 1 and scenario.names_stages
        self._stage = [layout.stage_of(rank) if named else -1 for rank in range(scenario.ranks)]
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

    def ranks(self, recent_steps: Iterable[Step], ranks: Any, now: float, ring: Any) -> Rows:
        """Return the RANK_STATE rows of these ranks."""
        rows = rings.blank(Kind.RANK_STATE, len(ranks))
        steps, lines = list(recent_steps), list[dict[str, Any]]()
        for rank in ranks.tolist():
            last_seen = min(now, float(self._exits.end[rank]), *self._frozen(rank))
            lines.append(self._line(self._standing(steps, rank, last_seen), rank, now))
        # By column: writing one field in one row takes as long as writing it in all rows.
        for name in lines[0]:
            rows[name] = [line[name] for line in lines]
        rows["rank"], rows["seq"], rows["time_ns"] = ranks, ring[ranks] - 1, rings.ns(now)
        rows["world"], rows["job_class"] = self._scenario.ranks, b"experiment"
        rows["major_faults"], rows["overruns"], rows["torn"] = 12.0, 0, 0
        rows["hook_errors"] = 0
        return rows

    def _frozen(self, rank: int) -> list[float]:
        interruptions = self._timeline.interruptions
        return [float(interruptions.stands_from[rank]), float(interruptions.frozen_from[rank])]

    def _beat(self, rank: int, now: float) -> float:
        """Return the time of a rank's last heartbeat; a stopped or gone rank sends none."""
        ended = float(self._exits.end[rank])
        fault = self._timeline.interruptions.lasting.get(rank)
        if fault is not None and fault.kind in (FaultKind.STOP, FaultKind.STOP_ALL):
            ended = min(ended, fault.onset)
        return min(now, ended)

    def _standing(self, steps: list[Step], rank: int, now: float) -> Standing:
        step = next(
            (candidate for candidate in reversed(steps) if candidate.began[rank] <= now), steps[0]
        )
        # Works of no length leave places in which no rank is.
        passed = [place for place in step.places if place.start[rank] <= now] or step.places[:1]
        place = passed[-1]
        inside = place.groups is not None
        entries = [place for place in passed if place.groups is not None]
        group = self._numbers[place.groups[rank]] if place.groups is not None else 0
        last = entries[-1] if entries else None
        if last is not None and last.groups is not None:
            group = self._numbers[last.groups[rank]]
        later_calls = sum(
            len(later_step.calls) for later_step in steps if later_step.number >= step.number
        )
        since = min(float(place.start[rank]), now)
        return Standing(
            step=step.number + (place is step.places[-1]),
            phase=place.phase,
            since=since,
            op=last.op if last is not None else Op.OTHER,
            group=group,
            waits=place.waits,
            in_collective=inside,
            entered=self._entered - later_calls + len(entries),
            entered_at=float(last.start[rank]) if last is not None else 0.0,
        )

    def _line(self, place: Standing, rank: int, now: float) -> dict[str, Any]:
        ended = float(self._exits.end[rank])
        has_ended = ended <= now
        idle = self._timeline.interruptions.idle_seconds(rank, now) + float(self._waited[rank])
        if place.in_collective:
            idle += now - place.entered_at
        return {
            "step": place.step,
            "phase": place.phase,
            "since_ns": rings.moment_ns(place.since),
            "waiting": place.waits,
            "microbatch": 0,
            "in_collective": place.in_collective,
            "collectives_entered": place.entered,
            "collective_op": place.op,
            "collective_group": place.group & 0xFFFF,
            "collective_since_ns": rings.moment_ns(place.entered_at),
            "collective_bytes": 1 << 26 if place.entered else 0,
            "stage": self._stage[rank],
            "process_state": self._process(rank, now, place),
            "gone_ns": rings.moment_ns(ended) if has_ended else 0,
            "exit_code": int(self._exits.code[rank]) if has_ended else -1,
            # The waits of a step in progress are counted when the step is made.
            "cpu_seconds": _CPU_RATIO * max(0.0, now - idle),
            "run_queue_seconds": 0.004 * now,
            "resident_bytes": self._resident(rank, now),
            "heartbeat_ns": rings.moment_ns(max(0.0, self._beat(rank, now) - _HEARTBEAT_SECONDS)),
        }

    def _process(self, rank: int, now: float, place: Standing) -> ProcessState:
        if float(self._exits.end[rank]) <= now:
            return ProcessState.GONE
        if self._timeline.interruptions.stopped(rank, now):
            return ProcessState.STOPPED
        fault = self._timeline.interruptions.lasting.get(rank)
        asleep = fault is not None and fault.kind is not FaultKind.HANG_BUSY and now >= fault.onset
        return ProcessState.SLEEPING if asleep or place.in_collective else ProcessState.RUNNING

    def _resident(self, rank: int, now: float) -> int:
        grown = sum(
            fault.effect * _GROWTH_BYTES * max(0.0, now - fault.onset)
            for fault in self._scenario.faults
            if fault.kind is FaultKind.MEMORY_GROWTH and rank in fault.ranks
        )
        return int(_RESIDENT_BYTES + grown + self._noise.integers(0, 1 << 22))

    def host(self, node: int, now: float) -> Rows:
        """Return one HOST row of a node."""
        rows = rings.blank(Kind.HOST, 1)
        rows["rank"], rows["time_ns"] = UNKNOWN_RANK, rings.ns(now)
        rows["cpu_busy_ratio"] = self._noise.normal(0.35, 0.02)
        for name in ("cpu_steal", "cpu_pressure", "memory_pressure", "io_pressure"):
            rows[f"{name}_ratio"] = self._noise.exponential(0.004)
        rows["load_per_cpu"] = self._noise.normal(0.4, 0.02)
        per_node = self._scenario.ranks_per_node
        used = sum(
            self._resident(rank, now) for rank in range(node * per_node, (node + 1) * per_node)
        )
        rows["memory_total_bytes"] = _MEMORY_BYTES
        rows["memory_available_bytes"] = max(_MEMORY_BYTES // 64, _MEMORY_BYTES - used)
        rows["major_faults_per_second"], rows["neighbour_pid"] = 0.0, 0
        return rows

    def agent(self, now: float) -> Rows:
        """Return one AGENT row."""
        rows = rings.blank(Kind.AGENT, 1)
        rows["rank"], rows["time_ns"] = UNKNOWN_RANK, rings.ns(now)
        rows["flush_seconds"], rows["poll_seconds"] = FLUSH_SECONDS, 0.25
        rows["spool_bytes"] = rows["dropped_segments"] = rows["held_segments"] = 0
        rows["version"] = text_bytes(version(), rows.dtype["version"].itemsize)
        return rows
