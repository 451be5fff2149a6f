"""A rank whose partner is left out is named only if it is slow whatever its sequences are."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.straggler import LIMITS, detect
from stepwatch.collector.detect.straggler.costly import CostlyRank
from stepwatch.collector.detect.straggler.inputs import partners_in
from stepwatch.collector.detect.straggler.partners import Partners, rarely_seen
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective
from stepwatch.collector.statistics.intervals import Share
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.detect.windows import slow, unknown_facts, window
from tests.collector.made import JOB, lifecycle_rows, segment, state_rows, step_rows

from .test_rare import course

RANKS = 16
PAIRS = {number: f"{2 * number},{2 * number + 1}" for number in range(RANKS // 2)}
ACROSS = {100: ",".join(map(str, range(0, RANKS, 2))), 101: ",".join(map(str, range(1, RANKS, 2)))}
GROUPS = {**PAIRS, **ACROSS, 102: f"0-{RANKS - 1}"}


def pairs(seed: int = 7, *, steps: int = 128, stages: int = 1, rarely: float = 0.3) -> Window:
    """Ranks of which two each work on the same sequences, one of which is long `rarely`."""
    dice = np.random.default_rng(seed)
    step_window = window(steps, RANKS, stages=stages, noise=0.02, seed=seed)
    length = np.where(dice.random((steps, RANKS // 2)) < rarely, 1.6, 0.75).astype(np.float32)
    for phase in ("forward", "backward"):
        step_window.planes[phase][:] *= np.repeat(length, 2, axis=1)
    return step_window


def partners(step_window: Window, left_out: tuple[int, ...] = ()) -> Partners:
    groups = {number: Group(text.count(",") + 1, text) for number, text in GROUPS.items()}
    calls = {
        (number, 1): BaselineCollective(0.01, 1e6, 24.0 if number in PAIRS else 3.0)
        for number in GROUPS
    }
    step_window.planes["duration"][:, list(left_out)] = np.nan
    return Partners(step_window, calls, groups, left_out)


@pytest.mark.parametrize("rarely", [0.05, 0.3, 0.5])
def test_beside_a_partner_that_is_left_out_sequences_name_nobody(rarely: float) -> None:
    for seed in range(300):  # of so many, two and a half standard errors are exceeded
        assert partners(pairs(seed, rarely=rarely)).may_be_chance(1, [0])
    assert partners(pairs(rarely=rarely), (0,)).may_be_chance(1)


def test_whoever_has_all_partners_is_not_asked() -> None:
    """Rank 2 meets rank 0 as well, but less often."""
    assert not partners(pairs()).may_be_chance(1)
    for rank in range(2, RANKS):
        assert not partners(pairs()).may_be_chance(rank, [0])
        assert not partners(pairs(), (0,)).may_be_chance(rank)


@pytest.mark.parametrize(("seconds", "every"), [(0.2, 1), (0.6, 2), (2.0, 4)])
def test_who_is_slow_whatever_its_sequences_are_is_named(seconds: float, every: int) -> None:
    """Of steps of a second: a fifth of each, 0.6 s of every second one, two of every fourth."""
    step_window = pairs()
    step_window.planes["backward"][::every, 1] += seconds
    assert not partners(step_window).may_be_chance(1, [0])
    assert not partners(step_window, (0,)).may_be_chance(1)


def test_members_that_share_no_sequences_hide_nobody() -> None:
    """Ranks of a node that shards its parameters within itself meet often, too."""
    for seed in range(20):
        step_window, dice = window(128, RANKS, noise=0.02, seed=seed), np.random.default_rng(seed)
        for phase in ("forward", "backward"):
            length = np.where(dice.random((128, RANKS)) < 0.3, 1.6, 0.75)
            step_window.planes[phase][:] *= length.astype(np.float32)
        assert not partners(step_window).may_be_chance(1, [0])


@pytest.mark.parametrize("mostly", [0.7, 0.9])
def test_sequences_that_are_mostly_long_name_nobody(mostly: float) -> None:
    """A rank that had long ones alone differs by little each time, and for no reason of its own."""
    for seed in range(100):
        step_window = pairs(seed, steps=40, rarely=mostly)
        assert partners(step_window).may_be_chance(1, [0])


def test_beside_one_other_group_alone_it_is_the_same() -> None:
    step_window = pairs()
    planes = {name: step_window.planes[name][:, :4] for name in step_window.planes}
    few = step_window._replace(
        planes=planes, flags=step_window.flags[:, :4], stage=step_window.stage[:4]
    )
    assert partners(few).may_be_chance(1, [0])
    few.planes["backward"][:, 1] += 0.4
    assert not partners(few).may_be_chance(1, [0])


def test_all_of_a_slow_node_are_named() -> None:
    step_window = pairs()
    for rank in range(4):
        slow(step_window, rank, "backward", 0.2, since=0)
    named: list[int] = []
    for rank in range(4):
        assert not partners(step_window).may_be_chance(rank, named)
        named.append(rank)


def test_who_is_compared_with_its_partners_alone_is_as_it_was() -> None:
    """A pair that is a whole stage, and a job of which nobody else is observed."""
    assert not partners(pairs(stages=RANKS // 2)).may_be_chance(1, [0])
    assert not partners(pairs(), tuple(range(2, RANKS))).may_be_chance(1, [0])


@pytest.mark.parametrize("text", ["0,1,...", "", "x"])
def test_groups_that_are_not_known_say_nothing(text: str) -> None:
    calls = {(number, 1): BaselineCollective(0.1, 1.0, 9.0) for number in (2, 9)}
    assert not Partners(pairs(), calls, {2: Group(2, text)}).may_be_chance(1, [0])


def test_few_steps_say_nothing_yet() -> None:
    step_window = pairs(steps=12)
    slow(step_window, 1, "backward", 5.0, since=0)
    assert partners(step_window).may_be_chance(1, [0])


def test_a_rank_that_was_seen_in_fewer_steps_is_left_out_though_it_is_back() -> None:
    history = course(20, 0, 0, 0, 0)
    assert rarely_seen(history, 4) == frozenset()
    history.compared[:8, 2], history.compared[0, 3] = 0, 15
    assert rarely_seen(history, 4) == {2}
    assert rarely_seen(history, 2) == frozenset()


def test_who_was_not_seen_for_a_part_of_the_evidence_is_left_out() -> None:
    job = LiveJob(JOB)
    start = {
        Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.START, range(4), 4),
        Kind.RANK_STATE: state_rows(range(4), 4, 0.1),
    }
    start[Kind.RANK_STATE]["stage"] = 0
    parts = (range(20), range(4)), (range(20, 94), range(3)), (range(94, 99), range(4))
    tables = [start, *({Kind.STEP: step_rows(*part)} for part in parts)]
    for number, rows in enumerate(tables):
        job.apply(segment(number + 1, rows), Received(0.0, 0.0))
    context = DetectionContext(job, 0.0)
    assert not context.unobserved
    assert partners_in(context).left_out == {3}


def costly(rank: int, node: int = -1, lost: float = 0.1) -> CostlyRank:
    share = Share(lost, lost - 0.01, lost + 0.01)
    return CostlyRank(rank, "backward", share, 0.1, 100, (100, 101), 20.0, node=node)


def test_of_two_partners_that_evidence_names_the_costlier_one_is_reported() -> None:
    step_window, facts = pairs(), unknown_facts(RANKS)

    def ranks(*costly_ranks: CostlyRank) -> list[int]:
        partner_times = partners(step_window)
        return sorted(
            finding.rank
            for finding in detect(
                step_window, facts, LIMITS, None, costly_ranks, partners=partner_times
            )
        )

    assert ranks(costly(1, lost=0.3), costly(0), costly(5)) == [1, 5]
    assert ranks(costly(1, lost=0.3), costly(0, node=0)) == [0, 1], "a node has no partner"


def test_a_partner_that_is_slow_all_the_time_is_left_out_too() -> None:
    """Ranks 2 to 5 of the job are in the window: the first of them stands out by itself."""
    step_window, numbers = pairs(), np.arange(2, 6)
    slow(step_window, 2, "data", 3.0, since=0)
    partner_times = partners(step_window)
    planes = {name: step_window.planes[name][:, numbers] for name in step_window.planes}
    part = step_window._replace(
        planes=planes, flags=step_window.flags[:, numbers], stage=step_window.stage[numbers]
    )
    findings = detect(part, unknown_facts(4), LIMITS, None, [costly(1)], numbers, partner_times)
    assert [finding.rank for finding in findings] == [2]
    findings = detect(part, unknown_facts(4), LIMITS, None, [costly(2)], numbers, partner_times)
    assert sorted(finding.rank for finding in findings) == [2, 4]
