"""A run's configuration, code, data and environment, as rank 0 describes them."""

from __future__ import annotations

from stepwatch.collector.state.folding.pieces import PieceTracker
from stepwatch.signals.records import LifecycleEvent, read_fact


class RunFacts(PieceTracker):
    """FACT pieces from each rank."""

    order = 19
    event = LifecycleEvent.FACT
    most = 1024

    def facts(self) -> dict[str, str]:
        """Return values by name, sorted; the newer one if a name is described twice."""
        newest = dict(map(read_fact, self._texts))
        return {name: newest[name] for name in sorted(newest) if name}
