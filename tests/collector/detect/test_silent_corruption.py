"""The majority decides which replica is wrong; without one nobody is accused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect import silent_corruption
from stepwatch.collector.detect.finding import NO_RANK
from stepwatch.collector.detect.silent_corruption import detect
from stepwatch.collector.state.trackers import numerics as numerics_module
from stepwatch.collector.state.trackers.communication.collective_records import Group
from stepwatch.collector.state.trackers.numerics import MAX_BAD, MAX_PENDING, Numerics
from stepwatch.collector.state.trackers.replicas import Comparison
from stepwatch.signals.names import Cause
from stepwatch.signals.records import Kind, NumericsSource, make_rows
from stepwatch.signals.wire import Rows

LIMITS = silent_corruption.LIMITS
GROUPS = {7: Group(4, "0-3"), 8: Group(2, "0,2")}


def dispute(digests: list[int], step: int = 15, part: int = 0, agreed: int = 7) -> Comparison:
    ranks = np.arange(len(digests), dtype=np.int32)
    values = np.array(digests, dtype=np.uint64)
    fresh = Comparison("0-3", part, step, step, agreed, ranks, values)
    return fresh._replace(previous=fresh)


def digests(step: int, values: dict[int, int], group: int = 7, part: int = 0) -> Rows:
    return make_rows(
        Kind.NUMERICS,
        len(values),
        rank=list(values),
        digest=list(values.values()),
        step=step,
        digest_group=group,
        digest_part=part,
        source=NumericsSource.PARAMETERS,
    )


SAME = dict.fromkeys(range(4), 5)


def test_the_minority_is_wrong() -> None:
    (finding,) = detect([dispute([5, 5, 6, 5])], LIMITS)
    assert (finding.rank, finding.began_step, finding.cause) == (2, 15, Cause.REPLICA_MISMATCH)
    assert "since step 15" in finding.summary
    assert (finding.evidence[0].name, finding.evidence[0].text) == (
        "last step with equal digests",
        "7",
    )


def test_digests_are_shown_to_their_last_bit() -> None:
    right, wrong = 0xFEDC_BA98_7654_3210, 0xFEDC_BA98_7654_3211
    (finding,) = detect([dispute([right, right, wrong])], LIMITS)
    assert [row.text for row in finding.evidence[1:]] == [
        "fedcba9876543210",
        "fedcba9876543210",
        "fedcba9876543211",
    ]


def test_two_replicas_accuse_nobody() -> None:
    (finding,) = detect([dispute([5, 6])], LIMITS)
    assert finding.rank == NO_RANK and "rank 0 or 1" in finding.summary


@pytest.mark.parametrize("values", [[1, 2, 3, 4], [5, 5, 6, 6], [5, 5, 6, 7]])
def test_more_than_two_without_a_majority_never_were_replicas(values: list[int]) -> None:
    assert detect([dispute(values)], LIMITS) == []


def test_one_dissent_is_not_enough_nor_are_two_of_different_ranks() -> None:
    first, second = dispute([5, 5, 6, 5]), dispute([5, 6, 5, 5])
    assert detect([first._replace(previous=None)], LIMITS) == []
    assert detect([first._replace(previous=second)], LIMITS) == []
    assert detect([dispute([5, 6])._replace(previous=None)], LIMITS) == []


def test_a_rank_is_named_once_for_all_its_parts_from_the_first() -> None:
    findings = detect([dispute([5, 5, 6, 5], 31, 1), dispute([5, 5, 6, 5], 15, 2)], LIMITS)
    assert [(finding.rank, finding.began_step) for finding in findings] == [(2, 15)]


def test_a_dispute_lasts_until_the_replicas_agree_again() -> None:
    numerics = Numerics()
    numerics.add(digests(7, SAME), 4)
    assert numerics.compare(GROUPS) == []
    numerics.add(digests(15, SAME | {1: 9}), 4)
    numerics.add(digests(23, SAME | {1: 11}), 4)
    (comparison,) = numerics.compare(GROUPS)
    assert (comparison.first_step, comparison.step, comparison.agreed_step) == (15, 23, 7)
    numerics.add(digests(31, SAME), 4)
    assert numerics.compare(GROUPS) == []


def test_replicas_that_never_agreed_are_none() -> None:
    numerics = Numerics()
    for step in (7, 15, 23):
        numerics.add(digests(step, {rank: rank + step for rank in range(4)}), 4)
        assert numerics.compare(GROUPS) == []


def test_two_that_differed_before_they_agreed_average_now_and_then() -> None:
    numerics = Numerics()
    for step, agree in ((7, False), (8, False), (15, True), (23, False), (24, False)):
        numerics.add(digests(step, {0: step, 2: step + (not agree)}, group=8), 4)
        assert numerics.compare(GROUPS) == []


def test_a_late_rank_is_waited_for_and_a_missing_one_proves_nothing() -> None:
    numerics = Numerics()
    numerics.add(digests(7, SAME), 4)
    numerics.add(digests(15, {0: 5, 1: 5, 2: 6}), 4)
    assert numerics.compare(GROUPS) == []
    numerics.add(digests(15, {3: 5}), 4)
    (comparison,) = numerics.compare(GROUPS)
    assert detect([comparison], LIMITS) == []
    numerics.add(digests(16, SAME | {2: 6}), 4)
    (comparison,) = numerics.compare(GROUPS)
    assert detect([comparison], LIMITS)[0].rank == 2


def test_a_group_that_never_completes_pushes_no_other_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numerics_module, "MAX_PENDING", 40)
    numerics = Numerics()
    for step in range(100):
        flipped = {0: 5, 2: 5 if step < 90 else 6}
        for rank, value in flipped.items():
            numerics.add(digests(step, {rank: value}, group=8), 4)
            numerics.add(digests(step, dict.fromkeys(range(3), 5), group=9), 4)
            comparisons = numerics.compare({**GROUPS, 9: Group(4, "0-3")})
    (comparison,) = comparisons
    assert (comparison.members, comparison.first_step) == ("0,2", 90)
    assert numerics.cells <= 40


def test_groups_and_parts_are_compared_among_themselves() -> None:
    numerics = Numerics()
    numerics.add(digests(7, SAME), 4)
    numerics.add(digests(7, {0: 1, 2: 1}, group=8), 4)
    numerics.add(digests(7, dict.fromkeys(range(4), 6), part=1), 4)
    numerics.add(digests(7, SAME, group=9), 4)
    numerics.add(digests(15, {0: 1, 2: 2}, group=8), 4)
    (comparison,) = numerics.compare(GROUPS)
    assert (comparison.members, comparison.ranks.tolist()) == ("0,2", [0, 2])


def test_digests_that_wait_are_compared_once_their_group_is_known() -> None:
    numerics = Numerics()
    numerics.add(digests(7, SAME), 4)
    numerics.add(digests(15, SAME | {2: 9}), 4)
    assert numerics.compare({}) == [] == numerics.compare({})
    (comparison,) = numerics.compare(GROUPS)
    assert comparison.step == 15


def test_impossible_rows_are_refused_and_what_is_kept_is_bounded() -> None:
    numerics = Numerics()
    assert numerics.add(digests(7, {-1: 5, 4: 5, 3: 5}), 4) == 2
    steps = np.arange(MAX_PENDING + MAX_BAD)[::-1]
    losses = {"source": NumericsSource.LOSS, "nonfinite": 1}
    rows = make_rows(Kind.NUMERICS, len(steps), rank=0, step=steps, **losses)
    numerics.add(rows, 4)
    assert len(numerics.bad) == MAX_BAD and numerics.bad["step"].min() == 0
    rows["source"], rows["digest_group"] = NumericsSource.PARAMETERS, 99
    numerics.add(rows, 4)
    assert numerics.cells <= MAX_BAD + MAX_PENDING


@given(st.permutations(list(range(12))), st.integers(0, 3))
def test_the_order_of_arrival_changes_nothing(order: list[int], wrong: int) -> None:
    later = [digests(15, SAME | {wrong: 9}), digests(23, SAME | {wrong: 8})]
    rows = np.concatenate([digests(7, SAME), *later])
    combined, piecewise = Numerics(), Numerics()
    combined.add(rows, 4)
    for index in order:
        piecewise.add(rows[[index]], 4)
    for numerics in (combined, piecewise):
        (finding,) = detect(numerics.compare(GROUPS), LIMITS)
        assert (finding.rank, finding.began_step) == (wrong, 15)
