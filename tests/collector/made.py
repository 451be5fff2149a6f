"""Telemetry made by hand: what a healthy or a faulty run would send, with every value known.

Step `s` of every rank ends `(s + 1) * seconds` after the node's monotonic zero, which is `EPOCH` in
wall time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from stepwatch.cli.simulate import rows as fleet
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import (
    DTYPES,
    PHASE_NAMES,
    Fact,
    Kind,
    LifecycleEvent,
    Link,
    Phase,
    ProcessState,
    make_rows,
    piece_texts,
)
from stepwatch.signals.wire import Rows, Segment, SegmentKey

EPOCH = 1_800_000_000
"""Wall seconds at monotonic zero; a multiple of a slice."""
SHARES = {"data": 0.05, "forward": 0.25, "backward": 0.4, "optimizer": 0.05, "other": 0.05}
"""Share of a healthy step that each phase takes; the rest is waiting in collectives."""
JOB = "made-by-hand"


class HandClock:
    """A clock whose hands the test turns; both start at `EPOCH` seconds of run time `at`."""

    def __init__(self, monotonic_s: float = 0.0) -> None:
        self.monotonic = monotonic_s
        self.wall = EPOCH + monotonic_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.monotonic += seconds
        self.wall += seconds

    def monotonic_ns(self) -> int:
        """Nanoseconds on the monotonic hand."""
        return round(self.monotonic * NANOSECONDS)

    def wall_ns(self) -> int:
        """Nanoseconds on the wall hand."""
        return round(self.wall * NANOSECONDS)


def step_rows(
    steps: Iterable[int],
    ranks: Iterable[int],
    seconds: float = 0.2,
    excess: Mapping[tuple[int, str], float] | None = None,
    began: float = 0.0,
) -> Rows:
    """STEP rows in step order; `excess` adds seconds of work to (rank, phase) in every step.

    The others wait for the slow rank, so every rank's step is longer by the largest excess.
    """
    excess = excess or {}
    numbers, order = np.array([*steps], np.int64)[:, None], np.array([*ranks], np.int64)
    work = {name: np.full(len(order), share * seconds) for name, share in SHARES.items()}
    for (slow, phase), more in excess.items():
        work[phase] += more * (order == slow)
    spent = {name: np.rint(values * NANOSECONDS).astype(np.int64) for name, values in work.items()}
    duration = round((seconds + max(excess.values(), default=0.0)) * NANOSECONDS)
    rows = fleet.step_rows(
        len(numbers), len(order), rank=order, step=numbers, seq=numbers + 1,
        time_ns=np.rint((began + (numbers + 1) * seconds) * NANOSECONDS), duration_ns=duration,
        spent_ns={**spent, "collective": duration - sum(spent.values())},
        tokens=100, microbatches=4, loss=5.0 - numbers / 100, flags=0,
    )  # fmt: skip
    return rows.reshape(-1)


def device_step_rows(
    steps: Iterable[int],
    ranks: Iterable[int],
    seconds: float = 0.2,
    excess: Mapping[tuple[int, str], float] | None = None,
    idle: Mapping[tuple[int, str], float] | None = None,
) -> Rows:
    """DEVICE_STEP rows of the steps of `step_rows`; `idle` is the idle part of (rank, phase).

    The host is 30 ms ahead, and the clocks are known to within 0.1 ms.
    """
    host = step_rows(steps, ranks, seconds, excess)
    rows = make_rows(Kind.DEVICE_STEP, len(host))
    for name in ("rank", "seq", "time_ns", "step"):
        rows[name] = host[name]
    for name in ("duration", *PHASE_NAMES, "collective", "pipeline_wait"):
        rows[f"{name}_seconds"] = host[f"{name}_ns"] / NANOSECONDS
    for name in PHASE_NAMES:
        rows[f"{name}_idle_seconds"] = 0.0
    for (rank, phase), part in (idle or {}).items():
        rows[f"{phase}_idle_seconds"][rows["rank"] == rank] = part
    rows["host_lead_seconds"], rows["clock_error_seconds"], rows["boundaries"] = 0.03, 1e-4, 12
    return rows


def host_ahead_rows(steps: Iterable[int], ranks: Iterable[int], seconds: float = 0.2) -> Rows:
    """STEP rows where the host enqueues each phase in 1 ms; the step takes what it takes."""
    rows = step_rows(steps, ranks, seconds)
    for name in (*SHARES, "collective"):
        rows[f"{name}_ns"] = NANOSECONDS // 1000
    rows["other_ns"] = rows["duration_ns"] - 5 * (NANOSECONDS // 1000)
    return rows


def read_every_tenth_rows(steps: Iterable[int], ranks: Iterable[int], seconds: float = 0.3) -> Rows:
    """STEP rows where the host reads the loss every tenth step and waits for the device there.

    The other nine take it 4 ms each, although each takes the device `seconds`.
    """
    rows = step_rows(steps, ranks, seconds)
    reads = rows["step"] % 10 == 9
    short = NANOSECONDS // 250
    rows["duration_ns"] = np.where(reads, round(10 * seconds * NANOSECONDS) - 9 * short, short)
    ends = (rows["step"] // 10 * 10) * seconds * NANOSECONDS + (rows["step"] % 10 + 1) * short
    rows["time_ns"] = np.where(reads, rows["time_ns"], ends)
    for name in (*SHARES, "collective"):
        rows[f"{name}_ns"] = NANOSECONDS // 2000
    rows["other_ns"] = rows["duration_ns"] - 5 * (NANOSECONDS // 2000)
    return rows


def timing_rows(ranks: Iterable[int], reason: bytes = b"", time_s: float = 0.0) -> Rows:
    """DEVICE_TIMING events: on a device of type `sim`, or on the host for `reason`."""
    rows = lifecycle_rows(LifecycleEvent.DEVICE_TIMING, ranks, 0 if reason else 1, time_s)
    rows["text"] = reason or b"sim"
    return rows


def state_rows(
    ranks: Iterable[int], world: int, time_s: float, step: int = 0, moved_ago: float = 0.01
) -> Rows:
    """RANK_STATE rows of healthy, running ranks at run time `at`; two ranks to a stage."""
    ranks = list(ranks)
    since_ns = max(1, round((time_s - moved_ago) * NANOSECONDS))
    return fleet.state_rows(
        ranks, fleet.Position(0, Phase.FORWARD, since_ns), state=ProcessState.RUNNING,
        busy_seconds=time_s, run_queue_seconds=0.0, time_ns=round(time_s * NANOSECONDS),
        heartbeat_ns=max(1, round((time_s - 0.1) * NANOSECONDS)),
        world=world, step=step, stage=np.asarray(ranks) // 2,
    )  # fmt: skip


def read_before(rows: Rows, seconds: int = 5) -> Rows:
    """RANK_STATE `rows`, read once a second for so long before, too: no CPU time in between."""
    earlier = [rows.copy() for _ in range(seconds)]
    for ago, copy in zip(range(seconds, 0, -1), earlier, strict=True):
        copy["time_ns"] -= ago * NANOSECONDS
    return np.concatenate([*earlier, rows])


def microbatch_rows(step: int, ranks: Iterable[int], count: int = 4, began: float = 0.0) -> Rows:
    """MICROBATCH rows of one call of GPipe, two ranks to a stage: all forwards, all backwards.

    A forward takes 10 ms and a backward 20 ms; stage `s` is idle for 10 ms times `s` first.
    """
    tables = []
    for rank in ranks:
        rows = make_rows(Kind.MICROBATCH, 2 * count + 1)
        rows["rank"], rows["step"], rows["index"] = rank, step, np.arange(len(rows))
        rows["stage"][:-1] = rank // 2
        rows["microbatch"][:-1] = np.tile(np.arange(count), 2)
        rows["phase"][:-1] = np.repeat([Phase.FORWARD, Phase.BACKWARD], count)
        spent = np.repeat([10_000_000, 20_000_000], count)
        ends = round(began * NANOSECONDS) + 10_000_000 * (rank // 2) + np.cumsum(spent)
        rows["began_ns"][:-1], rows["time_ns"][:-1] = ends - spent, ends
        rows["began_ns"][-1], rows["time_ns"][-1] = round(began * NANOSECONDS), ends[-1]
        tables.append(rows)
    return np.concatenate(tables)


def lifecycle_rows(
    event: LifecycleEvent, ranks: Iterable[int], value: int = 0, time_s: float = 0.0
) -> Rows:
    """One LIFECYCLE row per rank."""
    ranks = list(ranks)
    time_ns = round(time_s * NANOSECONDS)
    columns = {"rank": ranks, "event": event, "value": value, "time_ns": time_ns}
    return make_rows(Kind.LIFECYCLE, len(ranks), **columns)


def link_rows(link: Link) -> Rows:
    """The LIFECYCLE rows in which rank 0 reports a tracker's run, one a piece."""
    return _piece_rows(LifecycleEvent.LINK, link)


def fact_rows(fact: Fact) -> Rows:
    """The LIFECYCLE rows in which rank 0 reports what the run is made of, one a piece."""
    return _piece_rows(LifecycleEvent.FACT, fact)


def with_facts(segments: list[Segment], *facts: tuple[str, str]) -> list[Segment]:
    """The segments of a run, of which the first says names and values of what it is made of."""
    first, *later_segments = segments
    rows = [first.tables[Kind.LIFECYCLE], *(fact_rows(Fact(*fact)) for fact in facts)]
    return [
        first._replace(tables={**first.tables, Kind.LIFECYCLE: np.concatenate(rows)}),
        *later_segments,
    ]


def _piece_rows(event: LifecycleEvent, parts: Iterable[str]) -> Rows:
    texts = piece_texts(parts)
    rows = lifecycle_rows(event, [0] * len(texts), 0, 1.0)
    rows["value"] = range(len(texts))
    rows["text"] = [text.encode() for text in texts]
    return rows


def checkpoint_rows(event: int, ranks: Iterable[int], step: int, text: bytes = b"") -> Rows:
    """One CHECKPOINT row per rank: half a second of stall, two seconds until durable."""
    ranks = list(ranks)
    return make_rows(
        Kind.CHECKPOINT, len(ranks), rank=ranks, event=event, step=step, text=text,
        time_ns=3 * NANOSECONDS, stall_ns=NANOSECONDS // 2, durable_ns=2 * NANOSECONDS, bytes=1000,
    )  # fmt: skip


def segment(
    sequence: int,
    tables: Mapping[Kind, Rows],
    job: str = JOB,
    attempt: int = 0,
    node: str = "node-0",
) -> Segment:
    """A segment whose clock pair puts monotonic zero at `EPOCH`."""
    key = SegmentKey(job, attempt, node, 7, sequence)
    return Segment(key, ClockPair(0, EPOCH * NANOSECONDS), dict(tables))


def run_segments(
    steps: int,
    world: int = 4,
    seconds: float = 0.2,
    excess: Mapping[tuple[int, str], float] | None = None,
    slow_from: int = 0,
    job: str = JOB,
) -> list[Segment]:
    """A run on one node, five steps to a segment: start, steps, states; `excess` from a step on."""
    ranks = range(world)
    segments = []
    for first in range(0, steps, 5):
        numbers = range(first, min(first + 5, steps))
        excesses = [excess if step >= slow_from else None for step in numbers]
        parts = [
            step_rows([step], ranks, seconds, excess_of_step)
            for step, excess_of_step in zip(numbers, excesses, strict=True)
        ]
        end_s = (numbers[-1] + 1) * seconds
        tables = {
            Kind.STEP: np.concatenate(parts),
            Kind.RANK_STATE: state_rows(ranks, world, end_s, numbers[-1]),
        }
        if first == 0:
            tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, ranks, world)
        segments.append(segment(first // 5 + 1, tables, job))
    return segments


def random_rows(kind: Kind, count: int, generator: np.random.Generator) -> Rows:
    """Rows of random bytes: every bit pattern a field can hold."""
    raw = generator.bytes(count * DTYPES[kind].itemsize)
    return np.frombuffer(raw, dtype=DTYPES[kind]).copy()


def body(segments: Iterable[Segment]) -> bytes:
    """A request body."""
    return b"".join(wire.encode(item) for item in segments)
