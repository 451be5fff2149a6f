"""An alarm brings a flush forward: a rank starts, ends, or takes longer than its usual step."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.stalls.alarm import LATE_MULTIPLE, StepMarks
from stepwatch.signals.blackbox import layout
from stepwatch.signals.blackbox.layout import LiveLine
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import Kind, Phase
from tests.agent.conftest import Rank, Start, round_of, spooled

MakeAgent = Callable[..., Agent]
POLL = 0.25


def alarms(ends: list[float], usual_seconds: float, seconds: float) -> list[float]:
    """The times of late polls of a rank whose steps end at these times."""
    marks, late = StepMarks(), []
    for poll in range(round(seconds / POLL)):
        now = poll * POLL
        step = sum(end <= now for end in ends)
        if marks.is_late(round(now * NANOSECONDS), step, usual_seconds):
            late.append(now)
    return late


@pytest.mark.parametrize("usual_seconds", [0.02, 0.1, 0.4, 1.0, 5.0])
def test_usual_steps_raise_no_alarm(usual_seconds: float) -> None:
    ends = [number * usual_seconds * (1.0 + 0.05 * (number % 3)) for number in range(2000)]
    assert alarms(ends, usual_seconds * 1.05, 30.0) == []


@pytest.mark.parametrize("usual_seconds", [0.1, 0.4, 1.0, 5.0])
def test_steps_twice_as_long_raise_one_within_two_of_them(usual_seconds: float) -> None:
    slow_at = 10 * usual_seconds
    ends = [number * usual_seconds for number in range(11)]
    ends += [slow_at + number * 2 * usual_seconds for number in range(1, 400)]
    first = alarms(ends, usual_seconds, slow_at + 20.0)[0]
    assert slow_at < first <= slow_at + max(4 * usual_seconds, 2.0) + POLL


def test_a_rank_that_stands_still_raises_one() -> None:
    assert alarms([1.0, 2.0, 3.0], 1.0, 20.0)[0] == 3.0 + LATE_MULTIPLE


def test_a_rank_that_counts_from_zero_again_raises_none() -> None:
    marks = StepMarks()
    assert not marks.is_late(0, 900, 1.0)
    assert not marks.is_late(3 * NANOSECONDS, 2, 1.0)


def test_an_agent_notices_starts_ends_and_late_steps(
    tmp_path: Path, make_agent: MakeAgent, start: Start
) -> None:
    agent = make_agent()
    child = start("-c", "import time; time.sleep(60)")
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    rank = Rank(tmp_path / "rings", process=(child.pid, int(fields[19])))
    agent.poll()
    assert agent._is_alarmed(), "a rank started"
    live = layout.pack_live(LiveLine(time.monotonic_ns(), 1, 0, Phase.FORWARD))
    rank.ring.words[layout.LIVE_AT // 8], rank.ring.words[layout.LIVE_AT // 8 + 1] = live
    rank.ring.write(Kind.STEP, 0, time.monotonic_ns(), 10_000_000, *[0] * 14)
    agent.flush()
    assert not agent._is_alarmed(), "the flush reported the start"
    deadline = time.monotonic() + 20.0
    while not agent._is_alarmed():  # its second step does not end
        assert time.monotonic() < deadline
        time.sleep(0.05)
    agent.flush()
    child.kill()
    child.wait()
    while agent.exits.exit_of(rank.ring.identity.ring_id) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert agent._is_alarmed(), "a process ended"
    agent.flush()
    assert not agent._is_alarmed(), "the flush reported the end"
    rank.ring.close()


def test_a_segment_says_that_its_flush_came_early(rank: Rank, make_agent: MakeAgent) -> None:
    agent = make_agent()
    rank.steps(1)
    round_of(agent)
    agent.pace.follow(4.0)
    assert agent.pace.is_due(4, lambda: True)
    rank.steps(1)
    round_of(agent)
    assert [int(tables[Kind.AGENT]["early"][0]) for tables in spooled(agent)] == [0, 1]
