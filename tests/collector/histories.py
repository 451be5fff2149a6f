"""Random histories of a job, and whether two jobs know the same, bit by bit."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepwatch.collector.state.evidence.step_window import WORK
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import (
    CheckpointEvent,
    DeviceFlag,
    Kind,
    LifecycleEvent,
    Nearness,
    Op,
    Phase,
    ProcessState,
    StepFlag,
    Verification,
    make_rows,
)
from stepwatch.signals.wire import Rows, Segment, SegmentKey

from .gathered import call_rows, group_rows
from .made import (
    EPOCH,
    JOB,
    checkpoint_rows,
    device_step_rows,
    lifecycle_rows,
    microbatch_rows,
    state_rows,
    step_rows,
    timing_rows,
)

RANKS_A_NODE = 2


def placed_rows(ranks: range) -> Rows:
    """TOPOLOGY rows: each rank has a device with a card of its own."""
    return make_rows(
        Kind.TOPOLOGY,
        len(ranks),
        rank=ranks,
        nearness=Nearness.PIX,
        card=[f"0000:{rank:02x}:00.0".encode() for rank in ranks],
    )


Taken = tuple[Segment, Received]


class History:
    """A job's segments as they may arrive: late, repeated, out of order, of several attempts."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes = int(self.random.integers(1, 4))
        self.world = self.nodes * RANKS_A_NODE
        self.steps = [int(self.random.integers(0, 5))] * self.nodes
        self.disorder = float(self.random.choice([0.0, 0.1, 1.0]))
        """How often what is rare happens: without it the groups are large."""
        self.timed = self.chance(0.7)
        """Whether ranks say that devices time their steps, and most rows of devices come."""
        self.other = np.random.default_rng([seed, 1])
        """What decides about slow ranks and stages: `random` goes on as it would without them."""
        self.placing = np.random.default_rng([seed, 2])
        """What decides whether agents say which cards are near."""
        self.metering = np.random.default_rng([seed, 3])
        """What decides which metrics ranks record."""
        self.reading = np.random.default_rng([seed, 4])
        """What decides what agents find in checkpoints."""
        self.on_hosts = self.other.random() < 0.4
        """Whether nobody says anything of devices."""
        self.staged = self.other.random() < 0.3
        """Whether ranks say in which stage they are, two in each."""
        self.piped = self.other.random() < 0.3
        """Whether each rank sends to the one beside it, which shows stages that nobody says."""
        self.counted = self.other.random() < 0.5
        """Whether a rank with more tokens takes longer."""
        self.announced: set[tuple[int, int]] = set()
        """(attempt, node) whose ranks said it."""
        self.attempt = 0
        self.sequence = itertools.count(1)

    def segments(self, count: int) -> Iterator[Taken]:
        """Segments with the moment each is received."""
        delayed: list[Taken] = []
        for second in range(count):
            node = int(np.argmin(self.steps))
            if self.chance(0.3):
                node = int(self.random.integers(self.nodes))
            if self.rarely(0.02):
                self.attempt += 1
                self.steps = [max(0, min(self.steps) - 5)] * self.nodes
            delayed.append((self.segment(node), Received(EPOCH + second, float(second))))
            is_late = self.rarely(0.3) and len(delayed) > 1
            yield delayed.pop(int(self.random.integers(len(delayed)))) if is_late else delayed.pop()
        yield from delayed

    def chance(self, part: float) -> bool:
        return bool(self.random.random() < part)

    def rarely(self, part: float) -> bool:
        return self.chance(part * self.disorder)

    def segment(self, node: int) -> Segment:
        ranks = range(node * RANKS_A_NODE, (node + 1) * RANKS_A_NODE)
        tables = self.steps_of(node, ranks) if self.chance(0.8) else {}
        if self.chance(0.7):
            tables[Kind.RANK_STATE] = self.states(node, ranks)
        for kind, part, make in (
            (Kind.LIFECYCLE, 0.15, self.events),
            (Kind.CHECKPOINT, 0.15, self.saves),
            (Kind.HOST, 0.1, self.plain(Kind.HOST)),
            (Kind.NUMERICS, 0.1, self.plain(Kind.NUMERICS)),
            (Kind.MEMORY, 0.2, self.plain(Kind.MEMORY)),
            (Kind.AGENT, 0.2, self.plain(Kind.AGENT)),
            (Kind.GAP, 0.05, self.plain(Kind.GAP)),
            (Kind.NODE_FACT, 0.05, self.plain(Kind.NODE_FACT)),
            (Kind.MICROBATCH, 0.15, self.microbatches),
            (Kind.GROUP, 0.1, self.groups),
            (Kind.DEVICE_STEP, 0.6, self.device_steps),
            (Kind.DEVICE_COLLECTIVE, 0.2, self.plain(Kind.DEVICE_COLLECTIVE)),
            (Kind.DIAGNOSIS, 0.05, self.plain(Kind.DIAGNOSIS)),
            (Kind.FLIGHT, 0.05, self.plain(Kind.FLIGHT)),
            (Kind.LAST_LINE, 0.05, self.plain(Kind.LAST_LINE)),
        ):
            if self.chance(part) and (self.disorder or kind is not Kind.LIFECYCLE):
                tables[kind] = make(node, ranks)
        if self.placing.random() < 0.05:
            tables[Kind.TOPOLOGY] = placed_rows(ranks)
        if self.metering.random() < 0.2:
            tables[Kind.METRIC_NAME] = self.metric_names(ranks)
        if self.metering.random() < 0.4:
            tables[Kind.METRIC] = self.metrics(node, ranks)
        if self.reading.random() < 0.1:
            tables[Kind.VERIFICATION] = self.verifications(node, ranks)
        if self.timed:
            self.on_devices(tables, node, ranks)
        if self.on_hosts:
            tables.pop(Kind.DEVICE_STEP, None)
            if (events := tables.pop(Kind.LIFECYCLE, None)) is not None:
                events = events[events["event"] != LifecycleEvent.DEVICE_TIMING]
                tables |= {Kind.LIFECYCLE: events} if len(events) else {}
        if self.piped:
            self.exchanges(tables, ranks)
        number = max(0, self.attempt - 1) if self.rarely(0.05) else self.attempt
        key = SegmentKey(JOB, number, f"node-{node}", 7, next(self.sequence))
        return Segment(key, ClockPair(node * 1_000_000, EPOCH * NANOSECONDS + node), tables)

    def on_devices(self, tables: dict[Kind, Rows], node: int, ranks: range) -> None:
        """Say that devices time the steps, now and then that one does not; then send most rows."""
        parts = [tables[Kind.LIFECYCLE]] if Kind.LIFECYCLE in tables else []
        if (self.attempt, node) not in self.announced:
            self.announced.add((self.attempt, node))
            parts.append(timing_rows(ranks))
        if self.rarely(0.05):
            reason = b"lost" if self.chance(0.5) else b""
            parts.append(timing_rows(ranks[:1], reason, time_s=float(self.steps[node])))
        if parts:
            tables[Kind.LIFECYCLE] = np.concatenate(parts)
        if self.chance(0.8):
            tables[Kind.DEVICE_STEP] = self.device_steps(node, ranks)

    def steps_of(self, node: int, ranks: range) -> dict[Kind, Rows]:
        first = self.steps[node]
        if self.rarely(0.15):  # a late, repeated or skipped part
            first = max(0, first + int(self.random.integers(-12, 8)))
        numbers = range(first, first + int(self.random.integers(1, 5)))
        self.steps[node] = max(self.steps[node], numbers[-1] + 1)
        rows = step_rows(numbers, ranks)
        rows["tokens"] = self.other.integers(50, 150, len(rows))
        for name in ("loss", "duration_ns", "forward_ns"):
            rows[name] = rows[name] * (1 + self.random.random(len(rows)))
        for name in WORK if self.counted else ():
            rows[f"{name}_ns"] = rows[f"{name}_ns"] * (rows["tokens"] / 100.0)
        rows["flags"][self.other.random(len(rows)) < 0.02 * self.disorder] = StepFlag.FIRST
        rows = rows[self.random.random(len(rows)) >= 0.05 * self.disorder]
        calls = call_rows(numbers, {rank: 0.1 * self.random.random() for rank in ranks})
        return {Kind.STEP: rows, Kind.COLLECTIVE: calls}

    def exchanges(self, tables: dict[Kind, Rows], ranks: range) -> None:
        """The pair of each node's ranks, and what they send in their steps."""
        pair, steps = 20 + ranks[0], tables.get(Kind.STEP)
        if steps is not None and len(steps):
            sends = call_rows(np.unique(steps["step"]), dict.fromkeys(ranks, 0.0), pair, Op.SEND)
            tables[Kind.COLLECTIVE] = np.concatenate([tables[Kind.COLLECTIVE], sends])
            tables[Kind.GROUP] = group_rows(pair, ranks)

    def device_steps(self, node: int, ranks: range) -> Rows:
        """Of the steps before; now and then of steps that are far from having begun."""
        last = self.steps[node] + (int(self.random.integers(30)) if self.rarely(0.05) else 0)
        lag_steps = 12 if self.timed else 4
        rows = device_step_rows(range(max(0, last - lag_steps), last), ranks)
        rows["duration_seconds"] *= 1 + self.random.random(len(rows))
        rows["backward_seconds"] *= 1 + self.other.random(len(rows))
        rows["flags"][self.random.random(len(rows)) < 0.1 * self.disorder] = DeviceFlag.INCOMPLETE
        return rows[self.random.random(len(rows)) >= 0.05 * self.disorder]

    def states(self, node: int, ranks: range) -> Rows:
        world = self.world + (int(self.random.integers(-2, 3)) if self.rarely(0.03) else 0)
        rows = state_rows(ranks, world, self.steps[node] * 0.2, self.steps[node])
        rows["phase"][self.random.random(len(rows)) < 0.1] = Phase.CHECKPOINT
        if not self.staged:
            rows["stage"] = 0
        if self.other.random() < 0.03 * self.disorder:  # one moves here from another node
            rows["rank"][0] = self.other.integers(self.world)
        rows["resident_bytes"] = self.random.integers(0, 1000, len(rows))
        rows["run_queue_seconds"] = self.random.random(len(rows))
        if self.rarely(0.05):
            rows["process_state"] = ProcessState.GONE
        return np.concatenate([rows, rows[:1]]) if self.chance(0.1) else rows

    def events(self, node: int, ranks: range) -> Rows:
        event = list(LifecycleEvent)[self.random.integers(len(LifecycleEvent))]
        value = self.world + (int(self.random.integers(-1, 2)) if self.rarely(0.1) else 0)
        if self.chance(0.5):
            event = self.random.choice([LifecycleEvent.START, LifecycleEvent.FAILURE])
        if self.chance(0.1):  # a link, a fact or a loaded path, in a piece or two
            events = [LifecycleEvent.LINK, LifecycleEvent.FACT, LifecycleEvent.LOADED_PATH]
            event = self.other.choice(events)
            value = int(self.random.integers(2))
        return lifecycle_rows(event, ranks, value, time_s=3 * float(self.random.random()))

    def saves(self, node: int, ranks: range) -> Rows:
        event = list(CheckpointEvent)[self.random.integers(len(CheckpointEvent))]
        rows = checkpoint_rows(int(event), ranks, self.steps[node] // 8 * 8, b"reason")
        rows["stall_ns"][self.random.random(len(rows)) < 0.5] = 0
        return rows

    def verifications(self, node: int, ranks: range) -> Rows:
        rows = make_rows(Kind.VERIFICATION, 2)
        rows["rank"] = self.reading.choice(ranks, len(rows))
        rows["step"] = self.steps[node] // 8 * 8
        rows["state"] = self.reading.choice(list(Verification), len(rows))
        rows["again"] = self.reading.integers(2, size=len(rows))
        rows["path_number"] = self.reading.integers(1, 3, len(rows))
        rows["reason"], rows["path"] = b"it is missing", b"/runs/a"
        return rows

    def microbatches(self, node: int, ranks: range) -> Rows:
        return microbatch_rows(self.steps[node] + int(self.random.integers(0, 19)), ranks)

    def groups(self, node: int, ranks: range) -> Rows:
        return group_rows(int(self.random.integers(3)), ranks[: int(self.random.integers(1, 3))])

    def metric_names(self, ranks: range) -> Rows:
        rows = make_rows(Kind.METRIC_NAME, 3)
        rows["rank"] = self.metering.choice(ranks, len(rows))
        rows["number"], rows["better"] = self.metering.integers(0, 4, (2, len(rows)))
        rows["text"] = self.metering.choice([b"lr", b"loss", b"accuracy", b""], len(rows))
        rows["unit"] = self.metering.choice([b"", b"1", b"seconds"], len(rows))
        rows["evaluation"] = self.metering.choice([b"", b"validation"], len(rows))
        return rows

    def metrics(self, node: int, ranks: range) -> Rows:
        rows = make_rows(Kind.METRIC, 6)
        rows["rank"] = self.metering.integers(ranks[0] - 1, ranks[-1] + 2, len(rows))
        rows["step"] = np.maximum(self.steps[node] + self.metering.integers(-9, 3, len(rows)), 0)
        rows["time_ns"] = rows["step"] * 200_000_000
        for place in range(3):
            rows[f"name_{place}"] = self.metering.integers(0, 4, len(rows))
            rows[f"value_{place}"] = self.metering.choice([0.1, 0.2, np.nan, np.inf, 1e300], 6)
        return rows

    def plain(self, kind: Kind) -> Any:
        """Rows whose numbers are small: ranks that exist and not, losses that are finite or not."""

        def make(node: int, ranks: range) -> Rows:
            rows = make_rows(kind, 2)
            for name in rows.dtype.names or ():
                if rows[name].dtype.kind in "iuf":
                    rows[name] = self.random.integers(0, 4, len(rows))
            rows["rank"] = self.random.integers(ranks[0], ranks[-1] + 2, len(rows))
            rows["step"] = self.steps[node]
            rows["time_ns"] = (self.steps[node] * 0.2 + np.arange(2)) * NANOSECONDS
            return rows

        return make


def state_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All that an object holds by path, in a form that `==` compares bit by bit, NaN as well."""
    if isinstance(value, np.ndarray):
        yield path, (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.void):
        yield path, value.tobytes()
    elif isinstance(value, float):
        yield path, value.hex()
    elif isinstance(value, dict):
        yield path, list(map(str, value))
        for key, child in value.items():
            yield from state_of(child, f"{path}[{key}]")
    elif isinstance(value, (list, tuple, deque)):
        yield path, len(value)
        for index, child in enumerate(value):
            yield from state_of(child, f"{path}[{index}]")
    elif isinstance(value, (set, frozenset)):
        yield path, sorted(map(repr, value))
    elif hasattr(value, "__dict__"):
        yield from state_of(vars(value), f"{path}.{type(value).__name__}")
    else:
        yield path, repr(value)


def differences(job: LiveJob, reference: LiveJob) -> list[str]:
    """Paths at which two jobs differ."""
    job_state, reference_state = dict(state_of(job)), dict(state_of(reference))
    assert len(job_state) > 100, "it looks into the trackers"
    return [
        path
        for path in job_state.keys() | reference_state.keys()
        if job_state.get(path) != reference_state.get(path)
    ]
