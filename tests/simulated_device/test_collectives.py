"""Collectives on the simulated device: their values, and which rank waits for which."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ranks.forked import ForkedRanks

from .runs import figures
from .test_one_device import EXACT

Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ranks(forked_ranks: ForkedRanks, tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """Return both ranks' figures, by rank."""
    return figures(forked_ranks, "collectives", 2, tmp_path_factory.mktemp("two"))


def test_reductions_have_the_values_of_all_ranks(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["values"]["all_reduce"] == [3.0, 1.5]
    assert [rank["values"]["rooted"] for rank in ranks] == [[1.0, 3.0], [1.0, None]]


def test_gathers_and_scatters_have_every_rank_in_its_place(ranks: Ranks) -> None:
    for number, rank in enumerate(ranks):
        assert rank["values"]["all_gather"] == [[0.0, 1.0], [0.0, 1.0]]
        assert rank["values"]["reduce_scatter"] == [2.0 * number, 2.0 * number]
        assert rank["values"]["all_to_all"] == [[number, 10.0 + number]] * 2
        assert rank["values"]["objects"] == [{"rank": 0}, {"rank": 1}]
    assert [rank["values"]["one_to_all"] for rank in ranks] == [[[0.0, 1.0], 0.0], [[], 1.0]]


def test_coalesced_calls_compute_each_of_them(ranks: Ranks) -> None:
    for number, rank in enumerate(ranks):
        assert rank["coalesced"]["fast"] == rank["coalesced"]["slow"] == [1.0, 3.0, 5.0]
        assert rank["coalesced"]["received"] == 1.0 - number


@pytest.mark.parametrize("call", ["all_reduce", "async", "pipeline"])
def test_the_peer_of_a_late_rank_stands_and_the_late_rank_does_not(ranks: Ranks, call: str) -> None:
    peer, late_rank = (rank["stand"][call] for rank in ranks)
    assert peer["compute"] == pytest.approx(10, rel=EXACT)
    assert late_rank["compute"] == pytest.approx(110, rel=EXACT)
    assert peer["collective"] == pytest.approx(130, rel=EXACT)
    assert late_rank["collective"] == pytest.approx(30, rel=EXACT)
    assert not peer["host_waited"]
    assert not late_rank["host_waited"]


def test_a_collective_overlaps_with_computation(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["overlapped"]["ms"] == pytest.approx(40, rel=EXACT)


def test_a_slow_link_holds_every_rank_of_the_group(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["slow_link"]["ms"] == pytest.approx(40, rel=EXACT)


def test_a_group_has_a_stream_of_its_own(ranks: Ranks) -> None:
    for rank in ranks:
        assert rank["groups"]["two"] == pytest.approx(30, rel=EXACT)
        assert rank["groups"]["one"] == pytest.approx(60, rel=EXACT)


def test_no_call_left_an_error(ranks: Ranks) -> None:
    assert [rank["error"] for rank in ranks] == ["", ""]
