"""Which segments are in bundles is known to several threads at once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from stepwatch.collector.store import Store
from stepwatch.collector.store.bundles import keys
from stepwatch.collector.store.bundles.keys import BundledKeys
from stepwatch.collector.store.schema import SegmentRow
from stepwatch.signals.wire import SegmentKey
from tests.collector.made import JOB

SENDERS = 40


def key(sender: int, sequence: int) -> SegmentKey:
    return SegmentKey(JOB, 0, f"node-{sender:02}", 1, sequence)


def row(key: SegmentKey) -> SegmentRow:
    """Columns of a segment with that key."""
    return SegmentRow(*key, received_ns=0, wall_ns=0, wall_day=0, row_count=0, payload=b"")


def test_several_threads_ask_one_memory_and_get_the_same(store: Store) -> None:
    """Sender 3 has 1 to 3 in bundles, say; everybody asks for 1 to 5 of some senders."""
    bundled, switch = BundledKeys(), sys.getswitchinterval()
    with store.engine.begin() as connection:
        keys.add(connection, [key(s, n) for s in range(SENDERS) for n in range(1, s % 5 + 1)])

    def ask(first: int) -> bool:
        senders = [(first + step) % SENDERS for step in range(7)]
        requested = [key(sender, number) for sender in senders for number in range(1, 6)]
        expected = {
            tuple(segment_key)
            for segment_key in requested
            if segment_key.sequence <= int(segment_key.node[5:]) % 5
        }
        mark = 1 + first % 3  # the bundles of a job change meanwhile
        with store.engine.connect() as connection:
            present_keys = bundled.among(
                connection, [row(segment_key) for segment_key in requested], {JOB: mark}
            )
        return present_keys == expected

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask, range(120)))
    finally:
        sys.setswitchinterval(switch)
