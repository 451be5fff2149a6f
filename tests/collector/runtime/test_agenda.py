"""A round evaluates jobs with news of trouble first, and every job in its turn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepwatch.collector.runtime.agenda import (
    MOST_SHARE,
    NEWS,
    QUIET_SECONDS,
    SHORT_SHARE,
    Agenda,
    is_event,
)
from stepwatch.collector.runtime.pace import IN_TIME_SECONDS, LATE_SECONDS
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.signals.records import Kind, LifecycleEvent, ProcessState
from tests.collector.made import lifecycle_rows, segment, state_rows, step_rows

EVALUATION_SECONDS = 0.01


class Rounds:
    """Rounds over some jobs, a second apart, whose evaluations take `EVALUATION_SECONDS`."""

    def __init__(self, count: int) -> None:
        self.now = self.began = 0.0
        self.agenda = Agenda(lambda: self.now)
        self.jobs = [HeldJob(LiveJob(f"job-{number}")) for number in range(count)]
        self.troubled: set[str] = set()
        self.costs: dict[str, float] = {}
        """Seconds of an evaluation, where it takes longer."""

    def next(self, seconds: float = MOST_SHARE) -> list[str]:
        """Run a round; return the evaluated jobs in order."""
        self.now = self.began = float(np.floor(self.now)) + 1.0
        evaluated = []
        for job in self.agenda.turns(self.jobs, seconds):
            self.now += self.costs.get(job.name, EVALUATION_SECONDS)
            self.agenda.evaluated(job.name, attentive=job.name in self.troubled)
            job.cursor.drop()
            evaluated.append(job.name)
        return evaluated

    def send(self, number: int) -> None:
        """Let a job have a segment that no evaluation has seen."""
        part = segment(1, {Kind.STEP: step_rows([0], [0])}, f"job-{number}")
        self.jobs[number].cursor.offer(1, part, Received(0.0, 0.0))


def test_every_job_is_evaluated_in_each_round_while_there_is_time() -> None:
    rounds = Rounds(20)
    names = {job.name for job in rounds.jobs}
    assert all(set(rounds.next()) == names for _ in range(5))


def test_no_job_waits_longer_than_needed_where_there_is_no_time_for_all() -> None:
    rounds = Rounds(200)  # two seconds of evaluations
    rounds.next(math.inf)
    per_round = [rounds.next() for _ in range(40)]
    assert max(map(len, per_round)) <= MOST_SHARE / EVALUATION_SECONDS + 1
    waits = [
        np.diff([turn for turn, names in enumerate(per_round) if job.name in names]).max()
        for job in rounds.jobs
    ]
    assert max(waits) <= NEWS * QUIET_SECONDS + 2, "many jobs may be due in one round"


def test_jobs_take_turns_in_a_short_time_while_none_waits_long() -> None:
    rounds = Rounds(80)
    rounds.next(math.inf)
    counts = [len(rounds.next()) for _ in range(2)]
    assert max(counts) <= MOST_SHARE * SHORT_SHARE / EVALUATION_SECONDS + 1
    assert sum(counts) >= 48


def test_trouble_comes_before_news_and_news_before_silence() -> None:
    rounds = Rounds(60)
    rounds.troubled = {"job-59"}
    rounds.next()
    rounds.now += 2.0
    rounds.send(58)
    assert rounds.next()[:2] == ["job-59", "job-58"]


def test_a_large_job_in_trouble_leaves_time_for_the_quiet_ones() -> None:
    """An evaluation of 16,384 ranks took all of each round, and 500 small jobs waited for ever."""
    rounds = Rounds(100)
    rounds.troubled, rounds.costs = {"job-0"}, {"job-0": 3.0}
    evaluated = rounds.next(math.inf)
    for _ in range(7):
        for number in range(100):
            rounds.send(number)
        evaluated += rounds.next()
    assert set(evaluated) == {job.name for job in rounds.jobs}
    assert evaluated.count("job-0") == 8
    assert evaluated.count("job-99") >= 3


def test_a_called_job_is_first_and_all_called_ones_come() -> None:
    rounds = Rounds(100)
    rounds.next(math.inf)
    rounds.agenda.call(["job-99"])
    assert rounds.next()[0] == "job-99"
    assert "job-99" not in rounds.next()
    rounds.agenda.call([job.name for job in rounds.jobs])
    assert len(rounds.next()) == 100


def test_new_jobs_come_after_trouble_and_within_their_time() -> None:
    rounds = Rounds(1)
    rounds.troubled = {"job-0"}
    rounds.next()
    rounds.jobs += [HeldJob(LiveJob(f"new-{number}")) for number in range(300)]
    rounds.agenda.call([job.name for job in rounds.jobs])
    per_round = [rounds.next() for _ in range(6)]
    assert all(names[0] == "job-0" for names in per_round)
    most = (1.0 + SHORT_SHARE) * MOST_SHARE / EVALUATION_SECONDS
    assert max(map(len, per_round[:4])) <= most + 3
    assert {job.name for job in rounds.jobs} == {name for names in per_round for name in names}


def test_a_job_with_an_alarm_comes_before_all_others() -> None:
    rounds = Rounds(60)
    rounds.next()
    turns = rounds.agenda.turns(rounds.jobs, MOST_SHARE, {"job-59"})
    assert next(turns).name == "job-59"


def test_a_job_without_news_waits_twice_as_long() -> None:
    rounds = Rounds(300)
    rounds.next(math.inf)
    counts = {number: 0 for number in range(300)}
    for _ in range(40):
        for number in range(150):
            rounds.send(number)
        for name in rounds.next():
            counts[int(name.removeprefix("job-"))] += 1
    with_news, silent = sum(counts[n] for n in range(150)), sum(counts[n] for n in range(150, 300))
    assert with_news > 1.5 * silent > 0


def test_the_longest_wait_is_that_of_the_live_job_evaluated_first() -> None:
    rounds = Rounds(2)
    assert rounds.agenda.longest_wait() == 0.0
    rounds.next()
    rounds.now += 3.0
    assert rounds.agenda.longest_wait() == pytest.approx(3.0 + EVALUATION_SECONDS)
    for job in rounds.jobs:
        rounds.agenda.forget(job.name)
    assert rounds.agenda.longest_wait() == 0.0


def test_turns_within_the_plan_are_not_late() -> None:
    """Agents are asked to flush less often while rounds are late: planned turns must not ask."""
    rounds = Rounds(300)  # three seconds of evaluations
    for _ in range(20):
        rounds.next()
        late_seconds = rounds.agenda.late_seconds(rounds.now - rounds.began, MOST_SHARE)
    assert late_seconds < IN_TIME_SECONDS
    assert rounds.agenda.longest_wait() > QUIET_SECONDS - 2.0
    rounds.now += 30.0
    rounds.next()
    assert rounds.agenda.late_seconds(0.1, MOST_SHARE) > LATE_SECONDS
    assert Rounds(1).agenda.late_seconds(3.0, float("inf")) == 3.0


def test_events_and_ended_processes_call_a_job_and_steps_do_not() -> None:
    steps = {Kind.STEP: step_rows([0], [0]), Kind.RANK_STATE: state_rows([0], 1, 1.0, 0)}
    assert not is_event(segment(1, steps))
    start = {Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, [0], 1)}
    assert is_event(segment(1, steps | start))
    gone = state_rows([0, 1], 2, 1.0, 0)
    gone["process_state"][1] = ProcessState.GONE
    assert is_event(segment(1, {Kind.RANK_STATE: gone}))
