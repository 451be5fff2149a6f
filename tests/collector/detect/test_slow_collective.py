"""A slow path is distinguished from a straggler, from larger messages and from a busy host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.slow_collective import LIMITS, Steps, detect
from stepwatch.collector.detect.slow_collective.detector import is_slow, transfers
from stepwatch.collector.state.collective_timing import waits
from stepwatch.collector.state.trackers.communication.collective_records import CollectiveRecords
from stepwatch.collector.state.trackers.steps.baseline import BaselineCollective
from stepwatch.signals.records import Op
from stepwatch.signals.wire import Rows
from tests.collector.gathered import call_rows, group_rows, records_of

STEPS, STEP_SECONDS, TRANSFER, SENT = 40, 1.0, 0.05, 1000
SHARD: dict[int, tuple[int, ...]] = {1: (0, 1), 2: (2, 3)}
REPLICA: dict[int, tuple[int, ...]] = {3: (0, 2), 4: (1, 3)}
Groups = Mapping[int, tuple[int, ...]]
Blocked = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def blocked(
    ranks: tuple[int, ...], noise: float = 0.0, seed: int = 0, steps: int = STEPS
) -> Blocked:
    """Seconds (steps, ranks) that healthy members are blocked: one of them comes last each step."""
    generator = np.random.default_rng([seed, *ranks])
    transfer = TRANSFER * generator.lognormal(0.0, noise, (steps, 1))
    lateness = (
        generator.lognormal(-3.0, noise, (steps, len(ranks))) if noise else np.zeros((steps, 1))
    )
    return np.asarray(
        transfer + lateness.max(axis=1, keepdims=True) - lateness + np.zeros(len(ranks))
    )


def rows_of(ranks: tuple[int, ...], seconds: Blocked, group: int, op: Op = Op.ALL_GATHER) -> Rows:
    """What those members would write."""
    parts = [
        call_rows([step], dict(zip(ranks, rank_seconds, strict=True)), group, op, 4, SENT)
        for step, rank_seconds in enumerate(seconds.tolist())
    ]
    return np.concatenate(parts)


def findings_of(
    rows: list[Rows], groups: Groups, more: float | list[float] = 0.0, slowdown: float = 1.0
) -> list[Finding]:
    introduced = [group_rows(number, ranks) for number, ranks in groups.items()]
    calls: CollectiveRecords = records_of(np.concatenate(rows), *introduced)
    world = 1 + max(max(ranks) for ranks in groups.values())
    steps = Steps(
        np.arange(STEPS),
        np.full(STEPS, STEP_SECONDS),
        np.full(STEPS, slowdown),
        np.zeros((STEPS, world)) + np.array(more),
    )
    heads = np.unique(np.concatenate(rows)[["group", "op"]])
    baseline = {
        (int(head["group"]), int(head["op"])): BaselineCollective(TRANSFER, SENT, 4.0)
        for head in heads
    }
    timed = waits(calls.of_steps(0, STEPS), calls.groups)
    result = detect(timed, calls.groups, baseline, steps, LIMITS)
    last = steps._replace(**{name: column[-1:] for name, column in steps._asdict().items()})
    newest = waits(calls.of_steps(STEPS - 1, STEPS), calls.groups)
    slow = is_slow(transfers(newest, baseline, last), last.seconds, LIMITS)
    assert slow.any() or not result, "the newest step is enough"
    assert (slow == is_slow(transfers(timed, baseline, steps), steps.seconds, LIMITS)[:, -1:]).all()
    return result


@pytest.mark.parametrize(
    "long, steps, named", [(4.5, 2, 1), (4.5, 1, 0), (3.0, 2, 0), (2.0, 3, 1), (1.5, 3, 0)]
)
def test_of_long_steps_two_or_three_in_a_row_are_enough(
    monkeypatch: pytest.MonkeyPatch, long: float, steps: int, named: int
) -> None:
    monkeypatch.setitem(globals(), "STEP_SECONDS", long)
    seconds = blocked((0, 1), noise=0.2)
    seconds[-steps:] += 1.0
    assert len(findings_of([rows_of((0, 1), seconds, 7)], {7: (0, 1)})) == named


@pytest.mark.parametrize("op", [Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_REDUCE])
def test_a_slow_path_raises_the_least_exposed_time_and_is_found(op: Op) -> None:
    ranks = (0, 1, 2, 3)
    seconds = blocked(ranks, noise=0.2)
    seconds[25:] += 0.4
    [finding] = findings_of([rows_of(ranks, seconds, 7, op)], {7: ranks})
    assert (finding.kind.value, finding.cause, finding.rank) == (
        "slow-collective",
        "slow-transfer",
        -1,
    )
    assert finding.began_step == 25
    assert finding.subject == "ranks 0,1,2,3"
    assert finding.summary.startswith(f"{op.name.lower()} in ranks 0,1,2,3 ")
    assert "since step 25" in finding.summary
    assert finding.ratio == pytest.approx(0.45 / TRANSFER, rel=0.2)
    [speed] = [row for row in finding.evidence if row.name == "bus bandwidth"]
    baseline, unit = speed.against.removeprefix("baseline ").removesuffix(" per second").split()
    assert speed.value < float(baseline) * {"kB": 1e3, "MB": 1e6}[unit] / 5


def test_waiting_for_a_straggler_is_no_slow_transfer() -> None:
    ranks = (0, 1, 2, 3)
    seconds = blocked(ranks, noise=0.2)
    seconds[20:, [0, 1, 3]] += 0.8
    assert findings_of([rows_of(ranks, seconds, 7)], {7: ranks}) == []


def test_it_takes_six_of_eight_steps_and_the_newest() -> None:
    ranks = (0, 1)
    for slow in range(1, 9):
        seconds = blocked(ranks)
        seconds[STEPS - slow :] += 0.4
        assert bool(findings_of([rows_of(ranks, seconds, 7)], {7: ranks})) == (
            slow >= LIMITS.least_steps
        )
    seconds = blocked(ranks)
    seconds[20 : STEPS - 1] += 0.4
    assert findings_of([rows_of(ranks, seconds, 7)], {7: ranks}) == [], "it is over"


@pytest.mark.parametrize("field", ["bytes", "count"])
def test_larger_messages_or_more_of_them_may_take_longer(field: str) -> None:
    ranks = (0, 1)
    seconds = blocked(ranks)
    seconds[20:] *= 8
    rows = rows_of(ranks, seconds, 7)
    assert len(findings_of([rows], {7: ranks})) == 1
    rows[field][rows["step"] >= 20] *= 8
    assert findings_of([rows], {7: ranks}) == []


def test_smaller_messages_may_not() -> None:
    ranks = (0, 1)
    seconds = blocked(ranks)
    seconds[20:] *= 8
    rows = rows_of(ranks, seconds, 7)
    rows["bytes"][rows["step"] >= 20] //= 2
    assert len(findings_of([rows], {7: ranks})) == 1


def test_a_host_on_which_everything_is_slower_is_no_slow_path() -> None:
    ranks = (0, 1)
    seconds = blocked(ranks)
    seconds[20:] += 0.3
    assert findings_of([rows_of(ranks, seconds, 7)], {7: ranks}, more=0.4) == []
    assert findings_of([rows_of(ranks, seconds, 7)], {7: ranks}, slowdown=4.0) == []
    assert findings_of([rows_of(ranks, seconds, 7)], {7: ranks}, more=np.nan) == [], "unknown"


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ([4.0, 0.0, 0.0, 0.0], True),
        ([4.0, 0.2, 0.0, 0.0], True),
        ([4.0, 0.4, 0.0, 0.0], False),
        ([0.2, 0.2, 0.2, 0.2], False),
        ([0.05, 0.05, 0.05, 0.05], True),
    ],
)
def test_a_slow_path_beside_one_slow_rank_is_a_slow_path(more: list[float], names: bool) -> None:
    """In four calls of 0.3 s more, the others may be late in turns, but not for the slow one."""
    ranks = (0, 1, 2, 3)
    seconds = blocked(ranks)
    seconds[20:] += 0.3
    assert bool(findings_of([rows_of(ranks, seconds, 7)], {7: ranks}, more)) is names


@pytest.mark.parametrize("rank", range(4))
def test_a_rank_that_all_slow_groups_share_is_named(rank: int) -> None:
    rows = []
    for op, pairs in ((Op.REDUCE_SCATTER, SHARD), (Op.ALL_REDUCE, REPLICA)):
        for number, ranks in pairs.items():
            seconds = blocked(ranks, noise=0.2)
            seconds[20:] += 0.4 * (rank in ranks)
            rows.append(rows_of(ranks, seconds, number, op))
    [finding] = findings_of(rows, {**SHARD, **REPLICA})
    assert finding.rank == rank
    assert f"only rank {rank} is in every slow group" in finding.summary


def test_a_group_with_no_other_to_compare_names_no_rank() -> None:
    rows = []
    for number, ranks in SHARD.items():
        seconds = blocked(ranks)
        seconds[20:] += 0.4 * (number == 2)
        rows.append(rows_of(ranks, seconds, number))
    [finding] = findings_of(rows, SHARD)
    assert (finding.rank, finding.subject) == (-1, "groups of 2 ranks")
    assert finding.summary.startswith("all_gather in ranks 2,3 ")


def test_groups_that_are_slow_in_turns_are_one_subject() -> None:
    """Of a slow network each tensor group shows now and then; the choice does not matter."""
    groups = {number: (2 * number, 2 * number + 1) for number in range(4)}
    subjects, named = set(), set()
    for seed in range(12):
        rows, dice = [], np.random.default_rng(seed)
        often = set(dice.permutation(4)[:2].tolist())
        for number, ranks in groups.items():
            seconds = blocked(ranks)
            seconds[20:] += 0.4 * (dice.random((STEPS - 20, 1)) < (0.95 if number in often else 0))
            rows.append(rows_of(ranks, seconds, number))
        for finding in findings_of(rows, groups):
            subjects.add(finding.subject)
            named.add(finding.summary[:24])
    assert len(named) > 1
    assert subjects == {"groups of 2 ranks"}


def test_all_groups_slow_is_the_fabric() -> None:
    rows = []
    for number, ranks in {**SHARD, **REPLICA}.items():
        seconds = blocked(ranks)
        seconds[20:] += 0.4
        rows.append(rows_of(ranks, seconds, number))
    [finding] = findings_of(rows, {**SHARD, **REPLICA})
    assert finding.rank == -1


@pytest.mark.parametrize("spoil", ["member", "group", "past"])
def test_nothing_is_said_where_it_cannot_be_known(spoil: str) -> None:
    ranks = (0, 1, 2)
    seconds = blocked(ranks)
    seconds[20:] += 0.4
    rows = rows_of(ranks, seconds, 7)
    if spoil == "member":
        rows = rows[(rows["rank"] != 1) | (rows["step"] < 20)]
    groups = {} if spoil == "group" else {7: ranks}
    introduced = [group_rows(number, members) for number, members in groups.items()]
    calls = records_of(rows, *introduced)
    baseline = (
        {}
        if spoil == "past"
        else {(7, int(Op.ALL_GATHER)): BaselineCollective(TRANSFER, SENT, 4.0)}
    )
    steps = Steps(
        np.arange(STEPS), np.full(STEPS, STEP_SECONDS), np.ones(STEPS), np.zeros((STEPS, 3))
    )
    timed = waits(calls.of_steps(0, STEPS), calls.groups)
    assert detect(timed, calls.groups, baseline, steps, LIMITS) == []


@pytest.mark.parametrize("members", [2, 4, 16])
def test_healthy_noise_is_silent(members: int) -> None:
    """Three hundred windows whose transfers vary by two fifths, with heavy single steps."""
    ranks = tuple(range(members))
    for seed in range(100):
        generator = np.random.default_rng(seed)
        seconds = blocked(ranks, noise=0.4, seed=seed)
        seconds += (generator.random((STEPS, 1)) < 0.1) * generator.uniform(0.1, 0.6, (STEPS, 1))
        assert findings_of([rows_of(ranks, seconds, 7)], {7: ranks}) == [], seed


@given(
    seconds=st.lists(st.floats(0.0, 0.6), min_size=2, max_size=2),
    usual=st.sampled_from([0.0, 0.01, 0.05, 0.2]),
    sent=st.sampled_from([SENT, 3 * SENT]),
    slowdown=st.floats(1.0, 3.0),
    more=st.sampled_from([0.0, 0.1, np.nan]),
    is_known=st.booleans(),
)
def test_longer_work_makes_no_operation_slow(
    seconds: list[float], usual: float, sent: int, slowdown: float, more: float, is_known: bool
) -> None:
    parts = [
        call_rows([7], dict.fromkeys(SHARD[number], transfer), number, Op.ALL_GATHER, 4, sent)
        for number, transfer in zip(SHARD, seconds, strict=True)
    ]
    introduced = [group_rows(number, ranks) for number, ranks in SHARD.items()]
    calls: CollectiveRecords = records_of(np.concatenate(parts), *introduced)
    timed = waits(calls.of_steps(7, 7), calls.groups)
    bound = Steps(np.array([7]), np.array([STEP_SECONDS]), np.ones(1), np.zeros((1, 4)))
    steps = bound._replace(slowdown=np.array([slowdown]), more_work=np.full((1, 4), more))
    baseline = {(1, int(Op.ALL_GATHER)): BaselineCollective(usual, SENT, 4.0)}
    if is_known:
        baseline[2, int(Op.ALL_GATHER)] = BaselineCollective(usual, SENT, 4.0)
    slow, may_be_slow = (
        is_slow(transfers(timed, baseline, work_steps), work_steps.seconds, LIMITS)
        for work_steps in (steps, bound)
    )
    assert (may_be_slow | ~slow).all()
    if is_known and max(seconds) < 0.01:
        assert not may_be_slow.any()
