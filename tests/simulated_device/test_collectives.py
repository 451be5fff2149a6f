"""Collectives on the simulated device: their values, and who stands for whom."""

from __future__ import annotations

from typing import Any

import pytest

from .runs import figures
from .test_one_device import EXACT

Ranks = list[dict[str, Any]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """What both ranks saw, by rank."""
    return figures("collectives", tmp_path_factory.mktemp("two"), 2)


def test_reductions_have_the_values_of_all_ranks(seen: Ranks) -> None:
    for rank in seen:
        assert rank["values"]["all_reduce"] == [3.0, 1.5]
    assert [rank["values"]["rooted"] for rank in seen] == [[1.0, 3.0], [1.0, None]]


def test_gathers_and_scatters_have_every_rank_in_its_place(seen: Ranks) -> None:
    for number, rank in enumerate(seen):
        assert rank["values"]["all_gather"] == [[0.0, 1.0], [0.0, 1.0]]
        assert rank["values"]["reduce_scatter"] == [2.0 * number, 2.0 * number]
        assert rank["values"]["all_to_all"] == [[number, 10.0 + number]] * 2
        assert rank["values"]["objects"] == [{"rank": 0}, {"rank": 1}]
    assert [rank["values"]["one_to_all"] for rank in seen] == [[[0.0, 1.0], 0.0], [[], 1.0]]


def test_coalesced_calls_compute_each_of_them(seen: Ranks) -> None:
    for number, rank in enumerate(seen):
        assert rank["coalesced"]["fast"] == rank["coalesced"]["slow"] == [1.0, 3.0, 5.0]
        assert rank["coalesced"]["received"] == 1.0 - number


@pytest.mark.parametrize("call", ["all_reduce", "async", "pipeline"])
def test_the_peer_of_a_late_rank_stands_and_the_late_rank_does_not(seen: Ranks, call: str) -> None:
    early, late = (rank["stand"][call] for rank in seen)
    assert early["compute"] == pytest.approx(10, rel=EXACT)
    assert late["compute"] == pytest.approx(110, rel=EXACT)
    assert early["collective"] == pytest.approx(130, rel=EXACT)
    assert late["collective"] == pytest.approx(30, rel=EXACT)
    assert not early["host_waited"]
    assert not late["host_waited"]


def test_a_collective_overlaps_with_computation(seen: Ranks) -> None:
    for rank in seen:
        assert rank["overlapped"]["ms"] == pytest.approx(40, rel=EXACT)


def test_a_slow_link_holds_every_rank_of_the_group(seen: Ranks) -> None:
    for rank in seen:
        assert rank["slow_link"]["ms"] == pytest.approx(40, rel=EXACT)


def test_a_group_has_a_stream_of_its_own(seen: Ranks) -> None:
    for rank in seen:
        assert rank["groups"]["two"] == pytest.approx(30, rel=EXACT)
        assert rank["groups"]["one"] == pytest.approx(60, rel=EXACT)


def test_no_call_left_an_error(seen: Ranks) -> None:
    assert [rank["error"] for rank in seen] == ["", ""]
