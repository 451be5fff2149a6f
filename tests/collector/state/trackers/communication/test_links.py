"""Links to runs of experiment trackers are put together from their pieces."""

from __future__ import annotations

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.communication.links import Links
from stepwatch.signals.records import Kind, Link
from stepwatch.signals.wire import Rows
from tests.collector.made import link_rows, segment

LINK = Link("wandb", "abc", "https://wandb.example/" + "p" * 90)


def links_of(*tables: Rows) -> list[Link]:
    attempt = Attempt(0)
    for sequence, rows in enumerate(tables, 1):
        attempt.apply(segment(sequence, {Kind.LIFECYCLE: rows}), Received(0.0, 0.0))
    assert attempt.lifecycle.events == [], "they are not among starts and ends"
    return attempt.tracker(Links).links()


def test_pieces_make_a_link_also_over_two_segments_and_when_sent_twice() -> None:
    rows = link_rows(LINK)
    assert len(rows) == 3
    assert links_of(rows[:1], rows[1:]) == [LINK]
    assert links_of(rows, rows) == [LINK]
    second_link = Link("tensorboard", "runs/1", "")
    assert links_of(rows, link_rows(second_link)) == [LINK, second_link]


def test_a_piece_without_the_one_before_it_is_left_out() -> None:
    rows = link_rows(LINK)
    assert links_of(rows[1:]) == []
    (link,) = links_of(rows[[0, 2]])
    assert LINK.url.startswith(link.url) and link.run == "abc"


def test_links_are_bounded() -> None:
    many = [link_rows(Link("mlflow", str(number), "")) for number in range(2 * Links.most)]
    assert len(links_of(*many)) == Links.most


def test_pieces_of_a_link_beyond_the_bound_do_not_join_the_one_before() -> None:
    links = [Link("wandb", str(number), "https://wandb.example/") for number in range(Links.most)]
    assert links_of(*map(link_rows, links), link_rows(LINK)) == links
