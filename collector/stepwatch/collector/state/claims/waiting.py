"""Batches that wait while too few of the ranks that they claim were seen."""

from __future__ import annotations

from stepwatch.collector.state.claims.rank_claims import RankClaims
from stepwatch.collector.state.folding.batches import BATCH_BYTES, Batch, Batches
from stepwatch.collector.state.tracker import CELL_BYTES, TrackedAttempt

MAX_WAITING_BYTES = 32 << 20
"""What waits of one attempt: what 1,000 nodes of eight ranks send first."""


class Waiting:
    """Batches of one attempt of which no world is believed yet, in their order."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.nbytes = 0

    def takes(self, batch: Batch, claims: RankClaims, attempt: TrackedAttempt) -> bool:
        """Take what a batch claims; whether it waits until more ranks vouch for its world. Records
        for which there is no room are refused."""
        claims.accepted(Batches([batch]), 0)
        if not claims.claims_a_world or claims.believed_world(0):
            return False
        if self.nbytes + batch.nbytes > MAX_WAITING_BYTES:
            attempt.refused_records += sum(map(len, batch.tables.values()))
        else:
            self.batches.append(batch)
            self.nbytes += batch.nbytes + BATCH_BYTES
        return True

    def drain(self) -> list[Batch]:
        """What waited, and waits no longer."""
        batches, self.batches, self.nbytes = self.batches, [], 0
        return batches

    @property
    def cells(self) -> int:
        """What it holds, for the bound on live state."""
        return self.nbytes // CELL_BYTES

    def reason(self, claims: RankClaims) -> str:
        """Why nothing is known although something came; empty where nothing waits."""
        if not self.batches:
            return ""
        world, vouchers, needed = claims.doubted_world
        return (
            f"{vouchers:,} of {world:,} ranks reported so far; it is evaluated once {needed:,} did"
        )
