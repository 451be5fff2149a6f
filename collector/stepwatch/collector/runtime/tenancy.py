"""Job ownership among collectors with a shared store; a single collector uses the same path.

A separate thread renews the leases, so that a long evaluation loses none, and takes up jobs from
collectors that have exited.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

import sqlalchemy as sa

from stepwatch.collector.state import live
from stepwatch.collector.state.holding.held import HeldJob
from stepwatch.collector.store.holders import is_gone
from stepwatch.collector.store.leases import LEASE_SECONDS, Lease, Leases
from stepwatch.collector.store.outages.outage import Outage

logger = logging.getLogger(__name__)

RENEW_SECONDS = 1.0
"""Renewal interval: a lease survives four failed renewals."""
ELSEWHERE_SECONDS = 5.0
"""Delay before a job held by another collector is claimed again."""


class Tenancy:
    """One collector's leases; without `leases` it is alone and owns every job.

    `replicas` counts the live collectors including this one, `surplus` the jobs beyond this one's
    share, and `refused` the writes refused after a lost lease.
    """

    def __init__(self, leases: Leases | None = None) -> None:
        self.replicas = 1
        self.surplus = 0
        self.refused = 0
        self._leases = leases
        self._epochs: dict[str, int] = {}
        self._elsewhere: dict[str, float] = {}
        self._wanted: set[str] = set()
        self._given_up: set[str] = set()
        self._confirmed_at = time.monotonic()
        self._lock = threading.Lock()
        self._renewing = Outage("renew leases")

    @property
    def is_shared(self) -> bool:
        """Whether leases are in use."""
        return self._leases is not None

    @property
    def is_confirmed(self) -> bool:
        """Whether no other collector can have taken over this one's jobs."""
        is_alone = self._leases is None or self.replicas == 1
        return is_alone or time.monotonic() - self._confirmed_at < LEASE_SECONDS

    @property
    def unconfirmed_seconds(self) -> float:
        """Seconds since the database last confirmed this collector; 0 for a single one."""
        return 0.0 if self._leases is None else time.monotonic() - self._confirmed_at

    def epochs(self) -> Mapping[str, int]:
        """Return the epochs of held jobs."""
        with self._lock:
            return dict(self._epochs)

    def holds(self, job: HeldJob) -> bool:
        """Return whether a job's state was built under the current lease."""
        return self._leases is None or self._epochs.get(job.name) == job.epoch

    def may_show(self, job: HeldJob) -> bool:
        """Return whether readers may see the local state: no other collector evaluates the job.

        A new job is shown before its lease is claimed.
        """
        if self._leases is None:
            return True
        return self.is_confirmed and (not job.epoch or self.holds(job))

    def lease(self, job: HeldJob) -> Lease | None:
        """Return the lease that a write about a job is checked against.

        None for a single collector.
        """
        if self._leases is None:
            return None
        return Lease(job.name, self._leases.holder, job.epoch)

    def epoch(self, name: str) -> int:
        """Return a held job's epoch, 0 for any other."""
        return self._epochs.get(name, 0)

    def want(self, names: Iterable[str]) -> None:
        """Claim jobs with the next `claim_wanted`, except those known to be held elsewhere."""
        now = time.monotonic()
        with self._lock:
            self._wanted.update(n for n in names if self._elsewhere.get(n, 0.0) < now)

    def claim_wanted(self) -> None:
        """Claim the requested jobs that no other collector holds.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        with self._lock:
            names = self._wanted - self._epochs.keys()
            self._wanted = set()
        if self._leases is None or not names:
            return
        claimed = self._leases.claim(names)
        until = time.monotonic() + ELSEWHERE_SECONDS
        with self._lock:
            self._epochs |= claimed
            now = time.monotonic()
            self._elsewhere = {
                n: expires_s for n, expires_s in self._elsewhere.items() if expires_s > now
            }
            self._elsewhere |= dict.fromkeys(names - claimed.keys(), until)

    def tick(self) -> bool:
        """Renew the leases and take up orphaned jobs; return whether there were any.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        if self._leases is None:
            return False
        began, epochs, given_up = time.monotonic(), self.epochs(), set(self._given_up)
        if given_up:
            self._leases.release(given_up, wanted=False)
        other_holders = self._leases.beat()
        if lost_holders := [holder for holder in other_holders if is_gone(holder)]:
            self._leases.expire(lost_holders)
        renewed = self._leases.renew()
        self.replicas = 1 + len(other_holders) - len(lost_holders)
        room = self._leases.share(self.replicas) if self.replicas > 1 else live.MAX_JOBS
        room = min(room, live.MAX_JOBS) - len(renewed)
        self.surplus = max(-room, 0)
        claimed = self._leases.claim_free(room) if room > 0 else {}
        with self._lock:
            for name, epoch in epochs.items():
                if renewed.get(name) != epoch and self._epochs.get(name) == epoch:
                    del self._epochs[name]
            self._epochs |= claimed
            # Claims that were committed although the answer was lost: no other collector would take
            # them.
            for name in renewed.keys() - epochs.keys() - given_up - self._given_up:
                self._epochs.setdefault(name, renewed[name])
            self._given_up -= given_up
            self._confirmed_at = began
        self._renewing.over()
        if claimed and self.replicas + len(lost_holders) > 1:
            logger.info("takes up %d jobs whose collector is gone", len(claimed))
        return bool(claimed)

    def run(self, stopping: threading.Event, claimed: Callable[[], object]) -> None:
        """Tick until `stopping` is set; call `claimed` after jobs were taken up."""
        while not stopping.wait(RENEW_SECONDS):
            try:
                if self.tick():
                    claimed()
            except sa.exc.SQLAlchemyError as error:
                self._renewing.noted(error)

    def lost(self, job: HeldJob) -> None:
        """Handle a refused write: another collector held the job since.

        The current lease may be this collector's again.
        """
        with self._lock:
            self.refused += 1
            if self._epochs.get(job.name) == job.epoch:
                del self._epochs[job.name]
        logger.warning("%s was evaluated by another collector meanwhile", job.name)

    def give_back(self, names: Collection[str]) -> None:
        """Release jobs to other collectors; they are saved and not being evaluated.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable; they stay here.
        """
        if self._leases is None or not names:
            return
        self._leases.release(names)
        with self._lock:
            self.surplus = max(self.surplus - len(names), 0)
            for name in names:
                self._epochs.pop(name, None)

    def give_up(self, names: Collection[str]) -> None:
        """Release jobs that no collector should hold before they write again.

        The next `tick` does so.
        """
        with self._lock:
            self._given_up.update(
                name for name in names if self._epochs.pop(name, None) is not None
            )

    def leave(self) -> None:
        """Release all leases: this collector stops."""
        if self._leases is None:
            return
        with self._lock:
            self._epochs = {}
        try:
            self._leases.leave()
        except sa.exc.SQLAlchemyError as error:
            self._renewing.noted(error)
        self._leases.close()
