"""The objectives in force: the site's documents with their generations in the store."""

from __future__ import annotations

import logging
from typing import NamedTuple

from stepwatch.collector.slo.asked.site import Objectives
from stepwatch.collector.store import Store

logger = logging.getLogger(__name__)


class _Numbered(NamedTuple):
    """The site's objectives, and the same with each SLO's generation."""

    asked: Objectives
    numbered: Objectives


class SiteObjectives:
    """The objectives in force; a signal handler may replace them, so there is no lock.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the store does not answer.
    """

    def __init__(self, store: Store, objectives: Objectives) -> None:
        generations = store.newest_generations()
        self.asked_otherwise = objectives.asked_otherwise(generations)
        """SLOs whose stored document differs from this collector's at its start."""
        self.are_unreadable = False
        """Whether the newest documents are unreadable: the previous objectives stay in force."""
        self._store = store
        self._asked = objectives
        self._numbered = _Numbered(objectives, objectives.of_generations(generations))
        self._stored: Objectives | None = None
        """The objectives whose generations are stored."""

    @property
    def current(self) -> Objectives:
        """The objectives in force; an SLO without a stored generation has no number yet."""
        asked, newest = self._asked, self._numbered
        return newest.numbered if newest.asked is asked else asked

    def replace(self, objectives: Objectives | None) -> None:
        """Put other objectives in force; None means unreadable documents, and changes nothing."""
        self.are_unreadable = objectives is None
        if objectives is None:
            return
        previous, self._asked = self.current, objectives
        for line in objectives.changes_since(previous):
            logger.info("objectives: %s", line)

    def store_generations(self, now_s: float) -> None:
        """Store when each SLO's objective took effect; one thread calls it.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer.
        """
        asked = self._asked
        if asked is self._stored:
            return
        slos = {name: (slo.revision, slo.document) for name, slo in asked.slos.items()}
        generations = self._store.note_generations(slos, now_s)
        for name in asked.asked_otherwise(generations):
            logger.warning("SLO %s: another collector of this store asks for something else", name)
        self._numbered = _Numbered(asked, asked.of_generations(generations))
        self._stored = asked
