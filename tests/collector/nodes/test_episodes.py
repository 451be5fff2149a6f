"""When a node had which fact: the same whatever the order and repetition of the reports."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.nodes.episodes import Episode, episodes, faults
from stepwatch.collector.nodes.limits import LIMITS
from stepwatch.collector.store.nodes import Sighted
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import NodeFact

from .sightings import DEVICE

REJOIN = LIMITS.rejoin_seconds


def sighted(
    began: float,
    last_seen: float,
    ended: float | None = None,
    *,
    fact: NodeFact = NodeFact.XID,
    code: int = 79,
    spool: int = 1,
    times: int = 1,
) -> Sighted:
    """One agent's finding; moments in seconds."""
    began_ns, seen_ns, ended_ns = (
        round(moment * 1e9) for moment in (began, last_seen, ended or 0.0)
    )
    return Sighted(
        "node-0", spool, fact, DEVICE, code, began_ns, began_ns, seen_ns, ended_ns, seen_ns, times,
        "a line", "", -1,
    )  # fmt: skip


def spans(merged: list[Episode]) -> list[tuple[float, float, float | None]]:
    return [(episode.began_at, episode.seen_at, episode.ended_at) for episode in merged]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([sighted(100, 130, 140)], [(100, 130, 140)]),
        # Killed and started again while it lasted: one. The kernel's log is read again from its
        # beginning, so the second agent knows the same beginning; a state begins when it is seen.
        ([sighted(100, 130), sighted(100, 190, 200, spool=2)], [(100, 190, 200)]),
        ([sighted(100, 130), sighted(150, 190, 200, spool=2)], [(100, 190, 200)]),
        # Its end was reported: what comes after is another one, however soon.
        ([sighted(100, 130, 140), sighted(141, 150, 160)], [(141, 150, 160), (100, 130, 140)]),
        # Nobody reported for so long that it cannot be the same one.
        (
            [sighted(100, 130), sighted(131 + REJOIN, 2000, spool=2)],
            [(131 + REJOIN, 2000, None), (100, 130, None)],
        ),
        # An end that one agent reported, and that another one saw no end of.
        ([sighted(100, 130, 140), sighted(120, 400, spool=2)], [(100, 400, None)]),
        # Other errors of the same device are episodes of their own.
        ([sighted(100, 130), sighted(100, 130, code=48)], [(100, 130, None), (100, 130, None)]),
    ],
)
def test_what_is_one_episode(
    rows: list[Sighted], expected: list[tuple[float, float, float | None]]
) -> None:
    assert spans(episodes(rows)) == expected


def test_how_often_is_at_least_what_one_agent_found() -> None:
    """The log is read again after a restart: sums would count a line twice."""
    (episode,) = episodes([sighted(100, 130, times=5), sighted(100, 190, spool=2, times=7)])
    assert episode.times == 7


MOMENTS = st.integers(0, 4000)


@st.composite
def findings(draw: st.DrawFn) -> list[Sighted]:
    sightings = []
    for spool in range(draw(st.integers(1, 8))):
        began, lasted = draw(MOMENTS), draw(st.integers(0, 900))
        ended = draw(st.one_of(st.none(), st.integers(0, 60)))
        end = None if ended is None else began + lasted + ended
        fact = draw(st.sampled_from([NodeFact.XID, NodeFact.PORT_DOWN, NodeFact.OUT_OF_MEMORY]))
        sightings.append(sighted(began, began + lasted, end, spool=spool, fact=fact, code=79))
    return sightings


@given(findings(), st.randoms())
def test_order_and_repetition_change_nothing(rows: list[Sighted], chance: random.Random) -> None:
    repeated = [*rows, *chance.choices(rows, k=3)]
    chance.shuffle(repeated)
    assert episodes(repeated) == episodes(rows)


@given(findings())
def test_no_moment_is_lost_or_counted_twice(rows: list[Sighted]) -> None:
    """Each finding lies in exactly one episode of its fact, and these do not overlap."""
    merged = episodes(rows)
    for row in rows:
        holding = [
            episode
            for episode in merged
            if episode.fact == row.fact
            and episode.began_at <= row.began_ns / NANOSECONDS <= episode.over_at
        ]
        assert holding, row
    for fact in {episode.fact for episode in merged}:
        same_fact = sorted(episode for episode in merged if episode.fact is fact)
        same_fact.sort(key=lambda episode: episode.began_at)
        for earlier, later in pairwise(same_fact):
            assert earlier.over_at < later.began_at
    bad = [episode for episode in merged if episode.fact is not NodeFact.OUT_OF_MEMORY]
    assert faults(merged, 0.0) <= len(bad) and bool(faults(merged, 0.0)) == bool(bad)


def test_faults_at_once_are_one_and_evidence_is_none() -> None:
    rows = [
        sighted(100, 130, 140),
        sighted(120, 150, 160, code=48),
        sighted(100, 150, 160, fact=NodeFact.OUT_OF_MEMORY, code=-1),
        sighted(161 + REJOIN, 2000, 2001),
    ]
    assert faults(episodes(rows), 0.0) == 2
    assert faults(episodes(rows), 1000.0) == 1, "what was over before does not count"
    assert faults(episodes(rows[2:3]), 0.0) == 0


def test_a_fact_of_a_later_version_is_left_out() -> None:
    later = sighted(100, 130)._replace(fact=9999)
    assert spans(episodes([later, sighted(200, 210)])) == [(200, 210, None)]
