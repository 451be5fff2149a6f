"""Live state follows the leases: jobs that are held come in, jobs that are held elsewhere go."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stepwatch.collector.runtime.restore import Restorer
from stepwatch.collector.runtime.tenancy import Tenancy
from stepwatch.collector.state.live import LiveState


class Succession:
    """Decides which jobs are read back from the store, and which are dropped."""

    def __init__(self, state: LiveState, tenancy: Tenancy, restorer: Restorer) -> None:
        self._state = state
        self._tenancy = tenancy
        self._restorer = restorer

    def begin(self, newest: Sequence[str]) -> None:
        """Request the jobs that wrote last, as far as nobody else holds them, in their order.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
        """
        if not self._tenancy.is_shared:
            self.want(newest)
            return
        self._tenancy.tick()
        self._tenancy.want(newest)
        self.follow(newest)

    def want(self, names: Collection[str]) -> None:
        """Have jobs read back that are not live although their logs hold something."""
        if self._tenancy.is_shared:
            self._tenancy.want(names)
            return
        for name in names:
            self._restorer.request(name)

    def follow(self, order: Sequence[str] = ()) -> None:
        """Drop what is held elsewhere by now, and request what is held here and not live.

        A new job is live before its lease is claimed; that it is new says the first epoch.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database is gone.
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
