"""Batches that wait until enough ranks vouch for the claimed world size."""

from __future__ import annotations

from stepwatch.collector.state.claims.rank_claims import RankClaims
from stepwatch.collector.state.folding.batches import BATCH_BYTES, Batch, Batches
from stepwatch.collector.state.tracker import CELL_BYTES, TrackedAttempt

MAX_WAITING_BYTES = 32 << 20
"""Maximum waiting bytes per attempt: the first segments from 1,000 nodes with eight ranks each."""


class Waiting:
    """Batches of one attempt without an accepted world size, in their order."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.nbytes = 0

    def takes(self, batch: Batch, claims: RankClaims, attempt: TrackedAttempt) -> bool:
        """Apply a batch's claims; return whether the batch waits for more vouching ranks.

        Records that do not fit are refused.
        """
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
        """Remove and return all waiting batches."""
        batches, self.batches, self.nbytes = self.batches, [], 0
        return batches

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return self.nbytes // CELL_BYTES

    def reason(self, claims: RankClaims) -> str:
        """Return why received records are not evaluated yet; empty if no batch waits."""
        if not self.batches:
            return ""
        world, vouchers, needed = claims.doubted_world
        return (
            f"{vouchers:,} of {world:,} ranks reported so far; it is evaluated once {needed:,} did"
        )
