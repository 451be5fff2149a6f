"""The node's present facts: a storm of one fault is one fact with a count."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.node_facts.catalogue import CATALOGUE, Severity
from stepwatch.signals.node_facts.xids import xid_of
from stepwatch.signals.records import DTYPES, UNKNOWN_RANK, Kind, NodeFact, text_bytes
from stepwatch.signals.wire import Rows

from .sighting import MAX_FACTS, Sighting

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 30.0
"""Seconds between two reports of an unchanged fact: a receiver that missed one gets the next."""
_MOST = 0xFFFFFFFF
_ROW = DTYPES[Kind.NODE_FACT]


class _Key(NamedTuple):
    fact: NodeFact
    subject: str
    code: int


@dataclass
class KnownFact:
    """A present fact.

    Times are monotonic nanoseconds. `counts` is by source, since two sources may report the same
    fact.
    """

    key: _Key
    began_ns: int
    seen_ns: int
    text: str
    pid: int
    counts: Counter[str] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)
    present: bool = True
    reported_ns: int | None = None
    reported_count: int = 0

    @property
    def count(self) -> int:
        """The number of occurrences, at least one."""
        return min(max([1, *self.counts.values()]), _MOST)

    @property
    def name(self) -> str:
        """The fact's name in the catalogue."""
        return CATALOGUE[self.key.fact].name

    @property
    def severity(self) -> Severity:
        """The severity from the catalogue, without context."""
        if self.key.fact is NodeFact.XID:
            return xid_of(self.key.code, self.text).severity
        return CATALOGUE[self.key.fact].severity


class FactBook:
    """Keep each fact until it ends, and select the facts to report."""

    def __init__(self) -> None:
        self.refused = 0
        """Sightings that were dropped because there were too many facts."""
        self._facts: dict[_Key, KnownFact] = {}
        self._due: list[KnownFact] = []

    def take(self, source: str, sightings: Iterable[Sighting], now_ns: int) -> None:
        """Apply one read's sightings, and end facts that `source` no longer finds.

        A fact ends after its quiet time. Only a source that was read ages its facts: a failed read
        tells nothing.
        """
        for sighting in sightings:
            self._take(source, sighting, now_ns)
        for fact in list(self._facts.values()):
            quiet = CATALOGUE[fact.key.fact].quiet_seconds * NANOSECONDS
            if source in fact.sources and now_ns - fact.seen_ns >= quiet:
                self._end(fact)

    def present(self) -> list[KnownFact]:
        """Return the present facts."""
        # Copied at once: the serving and sending threads iterate while the loop adds facts.
        return [fact for fact in list(self._facts.values()) if fact.present]

    def settle(self, now_ns: int) -> None:
        """Select the facts to report until the next call: changed facts, and periodically all."""
        interval_ns = AGAIN_SECONDS * NANOSECONDS
        self._due = [
            fact
            for fact in self._facts.values()
            if fact.reported_ns is None
            or now_ns - fact.reported_ns >= interval_ns
            or fact.count >= 2 * fact.reported_count  # a storm: when it doubles
        ]
        for fact in self._due:
            fact.reported_ns, fact.reported_count = now_ns, fact.count
            if not fact.present:
                del self._facts[fact.key]

    def rows(self, now_ns: int, ranks: Mapping[int, int]) -> Rows:
        """Return the selected facts as NODE_FACT rows; `ranks` maps an attempt's pids to ranks."""
        rows = np.zeros(len(self._due), dtype=_ROW)
        for row, fact in zip(rows, self._due, strict=True):
            row["rank"], row["time_ns"] = ranks.get(fact.pid, UNKNOWN_RANK), now_ns
            row["fact"], row["present"] = fact.key.fact, fact.present
            row["code"], row["count"] = fact.key.code, fact.count
            row["began_ns"] = fact.began_ns
            for name, text in (("subject", fact.key.subject), ("text", fact.text)):
                row[name] = text_bytes(text, _ROW[name].itemsize)
        return rows

    def _take(self, source: str, sighting: Sighting, now_ns: int) -> None:
        key = _Key(sighting.fact, sighting.subject, sighting.code)
        fact = self._facts.get(key)
        if sighting.over:
            if fact is not None:
                self._end(fact)
            return
        moment_ns = min(sighting.at_ns or now_ns, now_ns)
        if now_ns - moment_ns >= CATALOGUE[key.fact].quiet_seconds * NANOSECONDS:
            return  # over for long: a log holds entries from before this agent
        if fact is None:
            if len(self._facts) >= MAX_FACTS:
                self.refused += 1
                return
            fact = self._facts[key] = KnownFact(key, moment_ns, moment_ns, "", 0)
            logger.warning("%s: %s %s", fact.name, key.subject, sighting.text)
        fact.present = True
        fact.seen_ns = max(fact.seen_ns, moment_ns)
        fact.text, fact.pid = sighting.text or fact.text, sighting.pid or fact.pid
        fact.sources.add(source)
        fact.counts[source] += sighting.happened

    def _end(self, fact: KnownFact) -> None:
        if fact.present:
            fact.present, fact.reported_ns = False, None
            logger.info("%s of %s is over", fact.name, fact.key.subject)
