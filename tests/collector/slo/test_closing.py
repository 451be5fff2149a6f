"""Old steps go, and every figure stays what it is with all of them held."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.cli.simulate import rows as fleet
from stepwatch.collector.slo.closing import Limits, attempt_steps, close_old
from stepwatch.collector.slo.ladder import LADDER, Rung
from stepwatch.collector.slo.registry import discover
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.slo.slices import RunningSlices, Shares, counted_tails, summed
from stepwatch.collector.slo.standing import standing
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.snapshot import put_together, taken_apart
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.store.slices import Slice
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import PHASE_NAMES, Kind, LifecycleEvent, make_rows
from stepwatch.signals.wire import Rows, Segment, SegmentKey
from tests.collector.made import EPOCH, JOB, lifecycle_rows, step_rows, timing_rows

WORLD = 2
FEW = Limits(retained=64, more=5, incomplete=120, single=1 << 20)
STEEP = (Rung(50, 100), Rung(200, 400))
SLIS = discover()


class Run:
    """A job of several attempts, resumed anywhere, whose steps take what they take."""

    def __init__(self, seed: int, timed: float = 0.5) -> None:
        self.random = np.random.default_rng(seed)
        self.timed = bool(self.random.random() < timed)
        self.now = 0.0
        self.sequence = 0

    def segments(self, attempts: int, most: int = 250) -> Iterator[Segment]:
        """Steps of each attempt, from one that an earlier attempt made."""
        first = 0
        for attempt in range(attempts):
            self.now += float(self.random.random() * 30)
            start = lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD, self.now)
            events = [start, lifecycle_rows(LifecycleEvent.RESUME, range(WORLD), first, self.now)]
            if self.timed:
                events.append(timing_rows(range(WORLD), time_s=self.now))
            yield self.segment(attempt, {Kind.LIFECYCLE: np.concatenate(events)})
            last = first + int(self.random.integers(1, most))
            delayed: list[Segment] = []
            for begin in range(first, last, 7):
                yield from delayed
                delayed = list(self.part_segments(attempt, range(begin, min(begin + 7, last))))
                if delayed:
                    yield delayed.pop(0)
            yield from delayed
            first = int(self.random.integers(0, last))

    def part_segments(self, attempt: int, steps: range) -> Iterator[Segment]:
        """Now and then nobody reports a step, or a rank does so later than the others."""
        lengths = self.random.random(len(steps)) * self.random.choice([0.5, 2.0, 9.0])
        ends = self.now + np.cumsum(lengths)
        self.now = float(ends[-1])
        ranks = np.arange(WORLD)
        times_ns, lengths_ns = (values[:, None] * NANOSECONDS for values in (ends, lengths))
        host = fleet.step_rows(
            len(steps), WORLD, step=np.array(steps)[:, None], rank=ranks, spent_ns={},
            time_ns=times_ns + 1e6 * ranks, duration_ns=lengths_ns,
        ).reshape(-1)  # fmt: skip
        # Rank 0 evaluates at the end of a step, and rank 1 waits for it in the next one.
        host["eval_ns"][(host["step"] % 5 == 4) & (host["rank"] == 0)] = 3 * NANOSECONDS
        host["duration_ns"][(host["step"] % 5 == 0) & (host["rank"] == 1)] += 3 * NANOSECONDS
        host["tokens"], host["loss"] = 10, self.random.random(len(host))
        host = host[~np.isin(host["step"], [step for step in steps if self.random.random() < 0.03])]
        late_rows = (host["rank"] == 1) & (self.random.random() < 0.2)
        yield self.segment(attempt, self.tables(host[~late_rows]))
        if late_rows.any():
            yield self.segment(attempt, self.tables(host[late_rows]))

    def tables(self, host: Rows) -> dict[Kind, Rows]:
        if not self.timed or self.random.random() < 0.1:
            return {Kind.STEP: host}
        columns = {name: host[name] for name in ("step", "rank")}
        spent = (*PHASE_NAMES, "collective", "pipeline_wait")
        columns |= {f"{name}_seconds": host[f"{name}_ns"] / NANOSECONDS for name in spent}
        device = make_rows(
            Kind.DEVICE_STEP, len(host), time_ns=host["time_ns"] + np.uint64(2e8),
            duration_seconds=host["duration_ns"] / NANOSECONDS, **columns,
        )  # fmt: skip
        return {Kind.STEP: host, Kind.DEVICE_STEP: device}

    def segment(self, attempt: int, tables: dict[Kind, Rows]) -> Segment:
        self.sequence += 1
        key = SegmentKey(JOB, attempt, "node-0", 7, self.sequence)
        return Segment(key, ClockPair(0, EPOCH * NANOSECONDS), tables)


class Evaluated:
    """A job whose slices are brought up to date, and whose old steps go."""

    def __init__(self, limits: Limits, ladder: tuple[Rung, ...] = LADDER) -> None:
        self.limits, self.ladder = limits, ladder
        self.job = LiveJob(JOB)
        self.running = {name: RunningSlices(sli) for name, sli in SLIS.items()}

    def take(self, segment: Segment) -> None:
        self.job.append(segment, Received(float(EPOCH), 0.0))

    def look(self) -> list[Slice]:
        self.job.fold()
        attempts, changed_slices = attempt_steps(self.job), []
        tails = standing(self.job, attempts)
        for running in self.running.values():
            changed = running.changed(attempts, tails)
            running.accept(changed, running.coarser(changed, self.ladder))
            changed_slices += changed
        close_old(self.job, list(self.running.values()), attempts, self.limits)
        return changed_slices

    def restart(self) -> None:
        """From the state as it is saved, and the slices as they are stored."""
        self.job = put_together(taken_apart(self.job))
        self.restore()

    def restore(self) -> None:
        for name, sli in SLIS.items():
            stored = SliceLine(list(self.running[name].line))
            self.running[name] = RunningSlices(sli, stored)

    @property
    def step_count(self) -> int:
        return sum(len(run.steps.history.rows) for run, _ in self.job.runs().values())

    @property
    def dropped(self) -> int:
        return sum(run.steps.history.dropped.count for run, _ in self.job.runs().values())


def brute(job: LiveJob) -> dict[str, list[Slice]]:
    """The slices of all steps at once, of a job that holds them."""
    job.fold()
    steps_by_attempt = attempt_steps(job)
    tails = standing(job, steps_by_attempt).values()
    return {
        name: summed(
            [
                *(Shares.from_steps(sli, steps) for steps in steps_by_attempt.values()),
                *(Shares.of_standing(counted_tails(sli, tail)) for tail in tails),
            ]
        )
        for name, sli in SLIS.items()
    }


def assert_same(evaluation: Evaluated, reference: LiveJob) -> None:
    """Each slice is the sum of those within it."""
    for name, every in brute(reference).items():
        expected = SliceLine(every)
        for part in evaluation.running[name].line:
            within = [
                e for e in expected.since(part.start_s) if e.start_s < part.start_s + part.seconds
            ]
            sums = [sum(column) for column in list(zip(*within, strict=True))[2:6]] or [0.0] * 4
            last = expected.slice_before(part.start_s + part.seconds)
            assert last is not None
            assert part[2:6] == pytest.approx(tuple(sums), abs=1e-6), (name, part)
            assert part[6:8] == pytest.approx(last[6:8], abs=1e-6), (name, part)
        last = evaluation.running[name].line.last
        assert last is not None
        assert last[6:8] == pytest.approx(every[-1][6:8], abs=1e-6)


@settings(max_examples=12)
@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(3, 40))
def test_figures_are_those_of_all_steps_whatever_was_dropped(
    seed: int, attempts: int, often: int
) -> None:
    evaluation, reference = Evaluated(FEW, STEEP), LiveJob(JOB)
    restarts = np.random.default_rng(seed).random(10_000) < 0.02
    saved = put_together(taken_apart(evaluation.job)), 0
    log = list(Run(seed).segments(attempts))
    for index, segment in enumerate(log):
        evaluation.take(segment)
        reference.append(segment, Received(float(EPOCH), 0.0))
        if index % often == 0:
            evaluation.look()
            assert evaluation.look() == [], "the same again is not news"
        if restarts[2 * index]:
            evaluation.job.fold()
            evaluation.restart()
        if restarts[2 * index + 1]:  # from what was saved before, and the log behind it
            evaluation.job, first_missed = put_together(taken_apart(saved[0])), saved[1]
            for missed in log[first_missed : index + 1]:
                evaluation.take(missed)
            evaluation.job.fold()
            evaluation.restore()
        if index % 31 == 0:
            evaluation.job.fold()
            saved = put_together(taken_apart(evaluation.job)), index + 1
    evaluation.look()
    assert_same(evaluation, reference)
    evaluation.job = LiveJob(JOB)  # no snapshot can be read: all of the log, beside the slices
    for segment in log:
        evaluation.take(segment)
    evaluation.job.fold()
    evaluation.restore()
    evaluation.look()
    assert_same(evaluation, reference)


def steps_of(attempt: int, steps: range, began: float, resumed: int | None = None) -> list[Segment]:
    """Steps of a second each, ten to a segment, on all ranks."""
    run, segments = Run(0, timed=0.0), []
    run.sequence = 1000 * attempt
    if resumed is not None:
        events = [
            lifecycle_rows(LifecycleEvent.START, range(WORLD), WORLD, began),
            lifecycle_rows(LifecycleEvent.RESUME, range(WORLD), resumed, began),
        ]
        segments.append(run.segment(attempt, {Kind.LIFECYCLE: np.concatenate(events)}))
    for first in range(steps.start, steps.stop, 10):
        numbers = range(first, min(first + 10, steps.stop))
        rows = step_rows(numbers, range(WORLD), 1.0, began=began - steps.start)
        segments.append(run.segment(attempt, {Kind.STEP: rows}))
    return segments


def ingest(evaluation: Evaluated, segments: list[Segment]) -> list[Slice]:
    changed = []
    for segment in segments:
        evaluation.take(segment)
        changed += evaluation.look()
    return changed


def test_a_history_holds_few_steps_however_long_the_attempt_is() -> None:
    evaluation, most = Evaluated(FEW), 0
    for segment in steps_of(0, range(600), 0.0, resumed=0):
        ingest(evaluation, [segment])
        most = max(most, evaluation.step_count)
    assert most <= FEW.retained + FEW.more + 20, "those of a slice go together"
    history = evaluation.job.current.steps.history
    assert (history.first, len(history), history.complete_until(WORLD)) == (0, 600, 599)
    assert history.dropped.count == 600 - len(history.rows)


def test_a_resume_before_dropped_steps_turns_their_work_bad_once() -> None:
    evaluation = Evaluated(FEW)
    ingest(evaluation, steps_of(0, range(300), 0.0, resumed=0))
    earlier = {part.start_s: part for part in evaluation.running["goodput"].line}
    changed = ingest(evaluation, steps_of(1, range(55, 60), 400.0, resumed=55))
    redone = {part.start_s: part for part in evaluation.running["goodput"].line}
    assert [part.start_s for part in changed if part in earlier.values()] == []
    lost = {start - EPOCH: earlier[start].good - redone[start].good for start in earlier}
    assert lost[40] == 0 and lost[60] == pytest.approx(20.0)
    assert lost[50] == pytest.approx(8.0), "steps 49 to 54 end in it and stay"
    assert redone[EPOCH + 40].version == earlier[EPOCH + 40].version
    assert redone[EPOCH + 50].version == earlier[EPOCH + 50].version + 1
    evaluation.restart()
    assert evaluation.look() == [], "what is redone was stored"


def test_a_resume_before_the_oldest_steps_counts_their_slice_as_redone() -> None:
    evaluation = Evaluated(FEW._replace(single=50))
    ingest(evaluation, steps_of(0, range(300), 0.0, resumed=0))
    earlier = {part.start_s: part.good for part in evaluation.running["goodput"].line}
    ingest(evaluation, steps_of(1, range(55, 60), 400.0, resumed=55))
    later = {part.start_s: part.good for part in evaluation.running["goodput"].line}
    assert later[EPOCH + 40] == earlier[EPOCH + 40]
    assert later[EPOCH + 50] == pytest.approx(0.0), "more than was lost, and no more than a slice"


def test_rows_of_dropped_steps_are_counted_and_change_nothing() -> None:
    evaluation = Evaluated(FEW)
    ingest(evaluation, steps_of(0, range(300), 0.0, resumed=0))
    late_rows = step_rows(range(3), [0], 1.0)
    history, refused = evaluation.job.current.steps.history, evaluation.job.current.refused_records
    assert ingest(evaluation, [Run(0).segment(0, {Kind.STEP: late_rows})]) == []
    assert history.dropped.late_rows == 3
    assert evaluation.job.current.refused_records == refused + 3


def test_a_clock_set_back_keeps_steps_until_their_slices_are_over() -> None:
    limited, unlimited = Evaluated(FEW), Evaluated(Limits())
    segments = steps_of(0, range(300), 0.0, resumed=0)
    segments += steps_of(0, range(300, 600), 288.0)
    for evaluation in (limited, unlimited):
        ingest(evaluation, segments)
    assert limited.dropped > 500
    assert_same(limited, unlimited.job)


def test_a_clock_set_back_by_more_than_is_held_puts_steps_in_the_first_open_slice() -> None:
    limited, unlimited = Evaluated(FEW), Evaluated(Limits())
    segments = steps_of(0, range(300), 0.0, resumed=0)
    segments += steps_of(0, range(300, 600), 230.0)
    for evaluation in (limited, unlimited):
        ingest(evaluation, segments)
    for name in SLIS:
        limited_last, unlimited_last = (
            limited.running[name].line.last,
            unlimited.running[name].line.last,
        )
        assert limited_last is not None and unlimited_last is not None
        assert limited_last[6:] == pytest.approx(unlimited_last[6:]), (
            "nothing is lost, and nothing counts twice"
        )


def test_an_end_in_the_far_future_does_not_fill_the_history() -> None:
    evaluation = Evaluated(FEW)
    segments = steps_of(0, range(600), 0.0, resumed=0)
    segments[5].tables[Kind.STEP]["time_ns"] += np.uint64(10**18)
    ingest(evaluation, segments)
    assert evaluation.step_count < FEW.retained + 3 * FEW.incomplete
