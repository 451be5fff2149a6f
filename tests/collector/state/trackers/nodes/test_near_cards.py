"""Nearest cards by rank: the newest report counts, and nothing that is sent can grow or do harm."""

from __future__ import annotations

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.nodes import near_cards
from stepwatch.collector.state.trackers.nodes.near_cards import NearCard, NearCards
from stepwatch.signals.records import Kind, Nearness, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.made import segment, state_rows


def card_rows(*cards: tuple[int, int, str]) -> Rows:
    ranks, ways, ports = zip(*cards, strict=True)
    columns = {"rank": ranks, "nearness": ways, "port": [port.encode() for port in ports]}
    return make_rows(Kind.TOPOLOGY, len(cards), address=b"0000:3b:00", **columns)


def tracked(*parts: Rows) -> NearCards:
    attempt = Attempt(0)
    states = state_rows(range(4), 4, 1.0, 1, 0.1)
    attempt.apply(segment(1, {Kind.RANK_STATE: states}), Received(1.0, 1.0))
    for number, rows in enumerate(parts):
        attempt.apply(segment(2 + number, {Kind.TOPOLOGY: rows}), Received(2.0, 2.0))
    return attempt.tracker(NearCards)


def ports(tracker: NearCards) -> dict[int, list[str]]:
    return {rank: [min(card.names) for card in cards] for rank, cards in tracker.by_rank.items()}


def test_the_newest_report_of_a_rank_replaces_what_was_known() -> None:
    first = card_rows((1, 1, "mlx5_0"), (1, 1, "mlx5_1"), (2, 3, "mlx5_2"))
    assert ports(tracked(first)) == {1: ["mlx5_0", "mlx5_1"], 2: ["mlx5_2"]}
    assert ports(tracked(first, card_rows((1, 2, "mlx5_3"))))[1] == ["mlx5_3"]
    assert tracked(first).by_rank[2] == (
        NearCard("0000:3b:00", Nearness.PHB, frozenset({"mlx5_2"})),
    )


def test_what_names_no_card_or_no_rank_is_left_out_and_cards_are_bounded() -> None:
    odd = card_rows((1, 1, ""), (1, 99, "later"), (-1, 1, "nobody"), (9, 1, "no such rank"))
    assert tracked(odd).by_rank == {} == tracked().by_rank
    many = tracked(card_rows(*[(0, 1, f"mlx5_{number}") for number in range(99)]))
    assert len(many.by_rank[0]) == near_cards.MAX_CARDS and many.cells > 0
