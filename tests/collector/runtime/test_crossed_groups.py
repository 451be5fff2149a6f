"""Ranks that wait for each other in a circle: both groups are named."""

from __future__ import annotations

from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind, Op
from tests.collector.gathered import group_rows
from tests.collector.made import HandClock, state_rows
from tests.collector.runtime.test_evaluation import Site

FIRST, SECOND = 7, 8


def crossed(site: Site, seconds: int, groups: list[int]) -> None:
    """Each rank waits in an all-reduce of its group of `groups`, by rank."""
    for passed in range(seconds):
        site.clock.advance(1.0)
        rows = state_rows(range(4), 4, site.clock.monotonic, site.step, 0.1 + passed)
        rows["collective_group"], rows["collective_op"] = groups, Op.ALL_REDUCE
        rows["in_collective"], rows["cpu_seconds"] = 1, 1.0
        site.send({Kind.RANK_STATE: rows})
        site.service.evaluate()


def test_two_groups_in_crossed_order_are_both_named(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    for group, ranks in ((FIRST, [0, 1]), (SECOND, [0, 1, 2, 3])):
        site.send({Kind.GROUP: group_rows(group, ranks)})
    site.run(20)
    crossed(site, 12, [FIRST, SECOND, SECOND, SECOND])
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["cause"]) == ("desync", "mismatched-order")
    assert (incident["rank"], incident["confidence"]) == (0, "certain")
    for words in ("all_reduce of group 0,1 for rank 1", "all_reduce of group 0,1,2,3 for rank 0"):
        assert words in incident["summary"]


def test_memberships_that_differ_are_told_by_both_groups(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    for group, ranks in ((FIRST, [0, 1, 2]), (SECOND, [1, 2, 3])):
        site.send({Kind.GROUP: group_rows(group, ranks)})
    site.run(20)
    crossed(site, 12, [FIRST, FIRST, SECOND, SECOND])
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["rank"]) == ("desync", -1)
    assert "group 0,1,2" in incident["summary"] and "group 1,2,3" in incident["summary"]


def test_groups_of_the_same_ranks_are_told_apart_by_name(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    for group, name in ((FIRST, "1"), (SECOND, "2 metrics")):
        site.send({Kind.GROUP: group_rows(group, range(4), name)})
    site.run(20)
    crossed(site, 12, [FIRST, SECOND, SECOND, SECOND])
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["cause"], incident["rank"]) == (
        "desync",
        "mismatched-order",
        0,
    )
    assert "rank 0 waits in all_reduce of group 0,1,2,3 (name 1)" in incident["summary"]
    assert "ranks 1-3 wait in all_reduce of group 0,1,2,3 (name 2 metrics)" in incident["summary"]


def test_a_collective_that_all_are_inside_is_no_circle(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.send({Kind.GROUP: group_rows(FIRST, range(4))})
    site.run(20)
    crossed(site, 12, [FIRST] * 4)
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["rank"]) == ("pause", -1)
    assert "all ranks are inside all_reduce of group 0,1,2,3" in incident["summary"]
    crossed(site, 80, [FIRST] * 4)
    (incident,) = (
        candidate for candidate in site.view()["incidents"] if candidate["kind"] == "hang"
    )
    assert incident["rank"] == -1
    assert "all members are inside all_reduce of group 0,1,2,3" in incident["summary"]
