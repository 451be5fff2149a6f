"""The newest reading of every probe, or why there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np

from stepwatch.agent.keys import Tables
from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.signals.wire import Rows

from .probe import Gauge, Probe

logger = logging.getLogger(__name__)


class Unknown(StrEnum):
    """Why a reading is unknown, as the metric label `reason` says it."""

    NO_SOURCE = "no-source"
    """The source was there and is no longer, for example an unloaded driver."""
    UNREADABLE = "unreadable"
    INVALID = "invalid"
    """The source was read and held what it cannot mean."""


class Readings:
    """Reads `probes` and closes them; everything but `probes` is by probe name.

    `up` and `unknown` (the reason) hold only probes whose source was there once.
    """

    def __init__(self, probes: Iterable[Probe]) -> None:
        self.probes = list(probes)
        self.latest: dict[str, Rows] = {}
        self.gauges: dict[str, list[Gauge]] = {}
        self.up: dict[str, bool] = {}
        self.unknown: dict[str, Unknown] = {}

    def read(self) -> None:
        """Read every probe once."""
        for probe in self.probes:
            self._read(probe)

    def tables(self, ranks: Sequence[WatchedRank]) -> Tables:
        """Rows for the segment of an attempt with these ranks; probes of one kind share a table."""
        parts: dict[int, list[Rows]] = {}
        for probe in self.probes:
            if probe.name in self.latest:
                rows = probe.rows_of(self.latest[probe.name], ranks)
                if len(rows):
                    parts.setdefault(probe.kind, []).append(rows)
        kinds = {probe.kind: parts[probe.kind] for probe in self.probes if probe.kind in parts}
        return {kind: np.concatenate(tables) for kind, tables in kinds.items()}

    def close(self) -> None:
        """Close every probe."""
        for probe in self.probes:
            probe.close()

    def _read(self, probe: Probe) -> None:
        if not probe.supported():
            if probe.name in self.up:
                self._forget(probe, Unknown.NO_SOURCE, "its source is no longer there")
            return
        try:
            rows = probe.read()
        except OSError as error:
            self._forget(probe, Unknown.UNREADABLE, str(error))
            return
        except ValueError as error:
            self._forget(probe, Unknown.INVALID, str(error))
            return
        if self.unknown.pop(probe.name, None) is not None:
            logger.info("probe %s reads again", probe.name)
        self.up[probe.name] = True
        self.latest[probe.name] = rows
        self.gauges[probe.name] = list(probe.gauges(rows))

    def _forget(self, probe: Probe, reason: Unknown, detail: str) -> None:
        if self.unknown.get(probe.name) is not reason:
            logger.warning("probe %s is unknown (%s): %s", probe.name, reason, detail)
        self.unknown[probe.name] = reason
        self.up[probe.name] = False
        self.latest.pop(probe.name, None)
        self.gauges.pop(probe.name, None)
