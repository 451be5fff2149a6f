"""Keeps live state in line with leases: held jobs are loaded, jobs held elsewhere are dropped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stepwatch.collector.runtime.restore import Restorer
from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.state.live import LiveState


class Succession:
    """Decides which jobs to restore from the store and which to drop."""

    def __init__(self, state: LiveState, tenancy: Tenancy, restorer: Restorer) -> None:
        self._state = state
        self._tenancy = tenancy
        self._restorer = restorer

    def begin(self, newest: Sequence[str]) -> None:
        """Request the latest written jobs in order, unless another collector holds them.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        if not self._tenancy.is_shared:
            self.want(newest)
            return
        self._tenancy.tick()
        self._tenancy.want(newest)
        self.follow(newest)

    def want(self, names: Collection[str]) -> None:
        """Request a restore for jobs that are not live although their logs have data."""
        if self._tenancy.is_shared:
            self._tenancy.want(names)
            return
        for name in names:
            self._restorer.request(name)

    def follow(self, order: Sequence[str] = ()) -> None:
        """Drop jobs held elsewhere, and request held jobs that are not live.

        A new job is live before its lease is claimed; its first epoch identifies it as new.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is unavailable.
        """
        if not self._tenancy.is_shared:
            return
        live = self._state.jobs()
        self._tenancy.want(job.name for job in live if not job.epoch)
        self._tenancy.claim_wanted()
        epochs = self._tenancy.epochs()
        for job in live:
            epoch = epochs.get(job.name, 0)
            if not job.epoch and epoch == 1:
                job.epoch = 1
            elif epoch != job.epoch or not epoch:
                self._state.release(job.name)
        withheld = self._state.withheld_now()
        for name in withheld.keys() - epochs.keys():
            self._state.release(name)
        known_names = {job.name for job in self._state.jobs()} | withheld.keys()
        places = {name: place for place, name in enumerate(order)}
        for name in sorted(epochs.keys() - known_names, key=lambda name: places.get(name, -1)):
            self._restorer.request(name)
