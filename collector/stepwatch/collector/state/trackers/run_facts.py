"""What a run is made of: its configuration, code, data and environment, as rank 0 describes it."""

from __future__ import annotations

from stepwatch.collector.state.folding.pieces import PieceTracker
from stepwatch.signals.records import LifecycleEvent, read_fact


class RunFacts(PieceTracker):
    """FACT pieces of each rank."""

    order = 19
    event = LifecycleEvent.FACT
    most = 1024

    def known(self) -> dict[str, str]:
        """Values by name, sorted; of one that was described twice, the newer."""
        newest = dict(map(read_fact, self._texts))
        return {name: newest[name] for name in sorted(newest) if name}
