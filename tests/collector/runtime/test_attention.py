"""Agents with an alarm flush at their own interval for a while, a few of them at a time."""

from __future__ import annotations

import pytest

from stepwatch.collector.runtime.attention import (
    ATTENTION_SECONDS,
    MOST_AGENTS,
    REST_SECONDS,
    AgentOfJob,
    Attention,
)
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Segment
from tests.collector.made import segment, step_rows


def flushed(job: str, *, early: int) -> Segment:
    tables = {Kind.STEP: step_rows([0], [0]), Kind.AGENT: make_rows(Kind.AGENT, 1, early=early)}
    return segment(1, tables, job)


class Moments:
    """Attention on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.attention = Attention(lambda: self.now)

    def covers(self, part: Segment) -> bool:
        return self.attention.covers([AgentOfJob(part.key.job, part.key.node)])


@pytest.fixture
def moments() -> Moments:
    return Moments()


def test_an_early_flush_begins_it_and_a_regular_one_does_not(moments: Moments) -> None:
    early, regular = flushed("early", early=1), flushed("regular", early=0)
    without = segment(1, {Kind.STEP: step_rows([0], [0])}, "old agent")
    moments.attention.note([early, regular, without])
    assert [moments.covers(part) for part in (early, regular, without)] == [True, False, False]
    assert moments.attention.jobs() == {"early"}


def test_it_ends_and_begins_again_only_after_a_rest(moments: Moments) -> None:
    early = flushed("job", early=1)
    moments.attention.note([early])
    moments.now = ATTENTION_SECONDS + 0.1
    moments.attention.note([early])
    assert not moments.covers(early) and not moments.attention.jobs()
    moments.now = ATTENTION_SECONDS + REST_SECONDS + 0.1
    moments.attention.note([early])
    assert moments.covers(early)


def test_a_fault_of_every_job_does_not_bring_back_the_load(moments: Moments) -> None:
    segments = [flushed(f"job-{number}", early=1) for number in range(3 * MOST_AGENTS)]
    moments.attention.note(segments)
    assert sum(map(moments.covers, segments)) == MOST_AGENTS
    moments.now = ATTENTION_SECONDS + 0.1
    moments.attention.note(segments)
    assert sum(map(moments.covers, segments)) == MOST_AGENTS
    assert not moments.covers(segments[0]) and moments.covers(segments[MOST_AGENTS])
