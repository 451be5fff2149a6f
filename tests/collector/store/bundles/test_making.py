"""What one bundle may hold."""

from __future__ import annotations

import pytest

from stepwatch.collector.store import Store
from stepwatch.collector.store.bundles import making
from tests.collector.made import JOB, run_segments
from tests.collector.store.filled import RECEIVED, positions, stored


@pytest.mark.parametrize(("most", "expected"), [(3, 1), (2, 0)])
def test_segments_with_too_many_layouts_stay_as_they_are(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, expected: int
) -> None:
    """The first segment of a run has three kinds of tables, the others two of them."""
    monkeypatch.setattr(making, "MOST_LAYOUTS", most)
    store.add_segments(stored(run_segments(60)), RECEIVED)
    stored_positions = positions(store)
    behind = making.Behind(JOB, 0, len(stored_positions))
    later_ns = RECEIVED + 1
    with store.engine.begin() as connection:
        chosen = making.choose(connection, behind, before_ns=later_ns, partly_before_ns=later_ns)
        bundling = making.Bundling(connection, behind, chosen)
        assert bundling.totals.bundles == expected
        assert bundling.next.mark == len(stored_positions), (
            "they are passed over, not looked at again"
        )
        assert bundling.store(connection)
    assert positions(store) == stored_positions
