"""The newest reading of every probe, or why there is none."""

from __future__ import annotations

import logging
from enum import StrEnum

from stepwatch.agent.probes import Probe, Rows
from stepwatch.signals.records import Kind

logger = logging.getLogger(__name__)


class Unknown(StrEnum):
    """Why a reading is unknown, as the metric label `reason` says it."""

    NO_SOURCE = "no-source"
    """The source was there and is no longer, for example an unloaded driver."""
    UNREADABLE = "unreadable"
    INVALID = "invalid"
    """The source was read and held what it cannot mean."""


class Readings:
    """Reads probes; `latest` holds rows by kind, `unknown` the reason by probe name.

    A probe whose source was never there is in neither `up` nor `unknown`.
    """

    def __init__(self) -> None:
        self.latest: dict[Kind, Rows] = {}
        self.up: dict[str, bool] = {}
        self.unknown: dict[str, Unknown] = {}

    def read(self, probe: Probe) -> Rows | None:
        """Read one probe; None while its reading is unknown."""
        if not probe.supported():
            if probe.name in self.up:
                self._forget(probe, Unknown.NO_SOURCE, "its source is no longer there")
            return None
        try:
            rows = probe.read()
        except OSError as error:
            return self._forget(probe, Unknown.UNREADABLE, str(error))
        except ValueError as error:
            return self._forget(probe, Unknown.INVALID, str(error))
        if self.unknown.pop(probe.name, None) is not None:
            logger.info("probe %s reads again", probe.name)
        self.up[probe.name] = True
        self.latest[probe.kind] = rows
        return rows

    def _forget(self, probe: Probe, reason: Unknown, detail: str) -> None:
        if self.unknown.get(probe.name) is not reason:
            logger.warning("probe %s is unknown (%s): %s", probe.name, reason, detail)
        self.unknown[probe.name] = reason
        self.up[probe.name] = False
        self.latest.pop(probe.kind, None)
