"""Segments wait in memory in their order, whatever the collector cannot read yet."""

from __future__ import annotations

from stepwatch.cli.simulate.outbox import Outbox


def waiting(outbox: Outbox) -> list[bytes]:
    return [data for _, data in outbox.oldest(100)]


def test_what_is_acknowledged_leaves_and_what_is_refused_is_counted() -> None:
    outbox = Outbox(1000, 1000)
    outbox.put([b"a", b"b", b"c"])
    outbox.acknowledge([0, 1], [1])
    assert (waiting(outbox), len(outbox), outbox.lost) == ([b"c"], 1, 1)


def test_what_is_held_comes_back_in_its_old_place() -> None:
    outbox = Outbox(1000, 1000)
    outbox.put([b"a", b"b", b"c"])
    outbox.hold([0, 1], {2})
    assert (waiting(outbox), outbox.held_segments) == ([b"c"], 2)
    outbox.release({2, 3})
    assert (waiting(outbox), outbox.held_segments) == ([b"a", b"b", b"c"], 0)


def test_it_is_full_by_bytes_or_by_segments_until_some_leave() -> None:
    for outbox in (Outbox(3, 1000), Outbox(1000, 3)):
        outbox.put([b"a", b"b"])
        assert not outbox.is_full
        outbox.put([b"c"])
        assert outbox.is_full
        outbox.acknowledge([1])
        assert not outbox.is_full
