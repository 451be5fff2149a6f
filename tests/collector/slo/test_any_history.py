"""Clocks that are set, runs that are launched again, restarts: slices are those of brute force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stepwatch.cli.simulate import rows as fleet
from stepwatch.collector.slo.closing import Limits
from stepwatch.collector.slo.ladder import LADDER
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.snapshot import put_together, taken_apart
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Rows, Segment, SegmentKey
from tests.collector.made import EPOCH, JOB, lifecycle_rows

from .brute import slices_of
from .test_closing import STEEP, Evaluated

WORLD = 2
NEAR_S = 5e-4
"""Device-seconds: less than the shortest step, more than the noise of a thousand ends as floats."""
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A history that fails is not made smaller: that takes minutes."""
FEW = Limits(retained=40, more=10, incomplete=120, single=1 << 20)


class Launched:
    """A job of tiny steps, whose host's clock is set now and then, and that is launched again.

    `sets`, `restart_chance`, `late_chance` and `stands` say how often: in each segment the clock
    is set, the attempt ends and starts once more, a rank reports later than the other; nothing
    moves before an attempt ends, or begins, and its devices were held before that.
    """

    def __init__(
        self,
        seed: int,
        sets: float = 0.0,
        restart_chance: float = 0.0,
        late_chance: float = 0.0,
        stands: float = 0.0,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.sets, self.restart_chance, self.late_chance, self.stands = (
            sets,
            restart_chance,
            late_chance,
            stands,
        )
        self.now = self.set_s = 0.0
        self.sequence = 0

    def segments(self, attempts: int, parts: int, most: int = 20) -> Iterator[Segment]:
        """Each attempt goes on from a step that was made, in so many segments."""
        first = 0
        for attempt in range(attempts):
            yield self.event(attempt, LifecycleEvent.START, first)
            behind: list[Rows] = []
            for _ in range(parts):
                if self.random.random() < self.sets:
                    ahead = float(self.random.choice([3600.0, 40.0, -25.0, -900.0, 0.0]))
                    self.set_s = self.set_s + ahead if ahead else 0.0
                if self.random.random() < self.restart_chance:
                    yield from map(self.steps, [attempt] * len(behind), behind)
                    yield self.event(attempt, LifecycleEvent.FAILURE)
                    first, behind = int(self.random.integers(0, first + 1)), []
                    yield self.event(attempt, LifecycleEvent.START, first)
                rows = self.rows(first, int(self.random.integers(1, most)))
                first = int(rows["step"].max()) + 1
                slow = (rows["rank"] == 1) & (self.random.random() < self.late_chance)
                if not slow.any():
                    yield from map(self.steps, [attempt] * len(behind), behind)
                    behind = []
                yield self.steps(attempt, rows[~slow])
                behind += [rows[slow]] if slow.any() else []
                if len(behind) > 3:
                    yield self.steps(attempt, behind.pop(0))
            yield from map(self.steps, [attempt] * len(behind), behind)
            first = int(self.random.integers(0, first + 1))

    def rows(self, first: int, count: int) -> Rows:
        lengths = self.random.integers(1, 73, count) * self.random.choice([1, 1, 10]) / 1000
        self.now += float(self.random.random() * 3) if self.random.random() < 0.1 else 0.0
        ends = self.now + np.cumsum(lengths)
        self.now = float(ends[-1])
        times_ns, lengths_ns = (values[:, None] * NANOSECONDS for values in (ends, lengths))
        rows = fleet.step_rows(
            count, WORLD, step=np.arange(first, first + count)[:, None], rank=range(WORLD),
            spent_ns={}, time_ns=times_ns, duration_ns=lengths_ns,
        )  # fmt: skip
        return rows.reshape(-1)

    def steps(self, attempt: int, rows: Rows) -> Segment:
        return self.segment(attempt, {Kind.STEP: rows})

    def event(self, attempt: int, event: LifecycleEvent, first: int = 0) -> Segment:
        self.now += 0.5
        if self.random.random() < self.stands:
            self.now += float(self.random.choice([4.0, 9.0, 70.0, 5000.0]) * self.random.random())
        rows = [lifecycle_rows(event, range(WORLD), WORLD, self.now)]
        if event is LifecycleEvent.START and self.random.random() < self.stands:
            since_s = int(EPOCH + self.set_s + self.now) - int(self.random.integers(0, 3000))
            rows.append(lifecycle_rows(LifecycleEvent.ALLOCATION, [0], since_s, self.now))
        if first and event is LifecycleEvent.START:
            rows.append(lifecycle_rows(LifecycleEvent.RESUME, range(WORLD), first, self.now))
        return self.segment(attempt, {Kind.LIFECYCLE: np.concatenate(rows)})

    def segment(self, attempt: int, tables: dict[Kind, Rows]) -> Segment:
        self.sequence += 1
        key = SegmentKey(JOB, attempt, "node-0", 7, self.sequence)
        clock = ClockPair(0, round((EPOCH + self.set_s) * NANOSECONDS))
        return Segment(key, clock, tables)


def assert_brute_force(evaluation: Evaluated, log: Sequence[Segment]) -> None:
    """Each slice holds what the steps in it add, and the sums of all before it."""
    for name, expected in slices_of(log).items():
        starts, so_far = sorted(expected), [0.0, 0.0]
        for part in evaluation.running[name].line:
            within = [start for start in starts if 0 <= start - part.start_s < part.seconds]
            sums = [sum(expected[start][column] for start in within) for column in range(4)]
            so_far = [so_far[0] + sums[0], so_far[1] + sums[1]]
            assert part[2:8] == pytest.approx((*sums, *so_far), abs=NEAR_S), (name, part)
        total = [sum(row[column] for row in expected.values()) for column in range(2)]
        assert so_far == pytest.approx(total, abs=NEAR_S), name


def looked_at(log: Sequence[Segment], evaluation: Evaluated, often: int) -> None:
    for index, segment in enumerate(log):
        evaluation.take(segment)
        if index % often == 0:
            evaluation.look()
            assert evaluation.look() == [], "the same again is not news"
    evaluation.look()


@settings(max_examples=4, phases=QUICK)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.integers(1, 9), st.booleans())
def test_a_clock_that_is_set_changes_no_sum(
    seed: int, attempts: int, often: int, steep: bool
) -> None:
    evaluation = Evaluated(FEW, STEEP if steep else LADDER)
    log = list(Launched(seed, sets=0.1).segments(attempts, 30))
    looked_at(log, evaluation, often)
    assert_brute_force(evaluation, log)
    assert evaluation.step_count <= FEW.incomplete + FEW.retained + FEW.more + 20 * often


@settings(max_examples=4, phases=QUICK)
@given(st.integers(0, 1 << 32), st.integers(1, 3), st.integers(1, 9))
def test_what_was_done_before_an_attempt_is_launched_again_stays(
    seed: int, attempts: int, often: int
) -> None:
    evaluation = Evaluated(FEW)
    log = list(Launched(seed, restart_chance=0.1).segments(attempts, 25))
    looked_at(log, evaluation, often)
    assert_brute_force(evaluation, log)


@settings(max_examples=12, phases=QUICK)
@given(st.integers(0, 1 << 32), st.integers(1, 4), st.integers(1, 9), st.booleans())
def test_time_in_no_step_is_lost(seed: int, attempts: int, often: int, sets: bool) -> None:
    launched = Launched(seed, sets=0.1 * sets, restart_chance=0.3, late_chance=0.1, stands=0.5)
    log = list(launched.segments(attempts, 8))
    evaluation = Evaluated(FEW, STEEP)
    looked_at(log, evaluation, often)
    assert_brute_force(evaluation, log)


@settings(max_examples=4, phases=QUICK)
@given(st.integers(0, 1 << 32), st.integers(1, 9), st.integers(1, 30), st.booleans())
def test_a_snapshot_and_the_rest_of_the_log_make_the_same_slices(
    seed: int, often: int, cut: int, steep: bool
) -> None:
    evaluation = Evaluated(FEW, STEEP if steep else LADDER)
    log = list(Launched(seed, sets=0.1, restart_chance=0.03, late_chance=0.3).segments(2, 25))
    saved = LiveJob(JOB), 0
    for index, segment in enumerate(log):
        evaluation.take(segment)
        if index % often == 0:
            evaluation.look()
        if index % 13 == 0:
            evaluation.job.fold()
            saved = put_together(taken_apart(evaluation.job)), index + 1
        if index % cut == cut - 1:
            evaluation.job = put_together(taken_apart(saved[0]))
            for missed in log[saved[1] : index + 1]:
                evaluation.take(missed)
            evaluation.job.fold()
            evaluation.restore()
    evaluation.look()
    assert_brute_force(evaluation, log)
    evaluation.job = LiveJob(JOB)
    for segment in log:
        evaluation.take(segment)
    evaluation.job.fold()
    evaluation.restore()
    evaluation.look()
    assert_brute_force(evaluation, log)


def test_slices_of_days_that_the_log_no_longer_holds_stay() -> None:
    evaluation = Evaluated(FEW)
    log = list(Launched(3).segments(1, 60))
    looked_at(log, evaluation, 5)
    earlier_lines = {name: list(sli_slices.line) for name, sli_slices in evaluation.running.items()}
    assert len(earlier_lines["goodput"]) > 5
    evaluation.job = LiveJob(JOB)
    for segment in (log[0], *log[30:]):
        evaluation.take(segment)
    evaluation.job.fold()
    evaluation.restore()
    changed = {part.start_s for part in evaluation.look()}
    kept_starts = [part.start_s for part in earlier_lines["goodput"] if part.start_s not in changed]
    assert kept_starts[:3] == [part.start_s for part in earlier_lines["goodput"]][:3]
    for name, sli_slices in evaluation.running.items():
        assert [part.expected for part in sli_slices.line] == [
            part.expected for part in earlier_lines[name]
        ]
