"""Each probe's newest reading, or the reason for its absence."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from stepwatch.agent.devices.joined import DEVICE_PROBES, joined
from stepwatch.agent.devices.rows import name_of
from stepwatch.agent.facts.book import FactBook
from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.keys import Tables
from stepwatch.agent.probes import Gauge, Probe
from stepwatch.agent.probes.probe import RankProcesses, Unknown
from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.signals.arrays import joined_rows
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import DTYPES, Kind, NodeFact
from stepwatch.signals.wire import Rows

from .answer import Answer, read
from .helper_process import HelperProcess
from .probe_process import ProbeProcess
from .shared_process import SharedProcess
from .starter import Starter

logger = logging.getLogger(__name__)

LATE_TEXT = "its read did not come back in time; its process was killed"
GRACE_SECONDS = 0.2
"""Seconds per flush for all answers, less than one poll; late answers join the next flush."""
STALLED_SECONDS = 0.05
"""Silence after which a process goes on beside the read that it may hang in."""


class Readings:
    """Read and close `probes`; the other attributes are keyed by probe name.

    `up` and `unknown` (the reason) list only probes whose source was present before or whose read
    timed out. `ranks` is the probes' constructor argument.
    """

    def __init__(
        self, probes: Iterable[Probe], clock: Clock, ranks: RankProcesses | None = None
    ) -> None:
        self.probes = list(probes)
        self.latest: dict[str, Rows] = {}
        self.gauges: dict[str, list[Gauge]] = {}
        self.up: dict[str, bool] = {}
        self.unknown: dict[str, Unknown] = {}
        self.details: dict[str, str] = {}
        """Reason text for a missing reading; no entry if the source was never present."""
        self._clock = clock
        self.ranks = ranks or RankProcesses()
        """The ranks' processes, with the devices from the newest reading."""
        self.starter = Starter(clock)
        self._processes: dict[str, ProbeProcess] = {}
        self._shared: dict[str, SharedProcess] = {}
        self._fresh: dict[str, Answer[Rows]] = {}
        self._answered: set[str] = set()
        self.facts = FactBook()

    def read(self) -> None:
        """Read every probe once; a slow probe's answer joins a later round."""
        self._fresh = {}
        isolated = [self._process_of(probe) for probe in self.probes if probe.isolated]
        self._ask(isolated)
        for probe in self.probes:
            if not probe.isolated:
                self._use(probe, cast(Answer[Rows], read(probe)))
        self._await([process for process in isolated if process.prompt])
        now = self._clock.monotonic_ns()
        self.facts.take("agent", self._unread(), now)
        self.facts.settle(now)

    def _ask(self, processes: Sequence[ProbeProcess]) -> None:
        self.starter.collect()
        asked: dict[HelperProcess, None] = {}
        for process in processes:
            self._take(process)
            try:
                helper = process.want()
            except (OSError, TypeError) as error:
                self._forget(process.probe, Unknown.FAILED, f"cannot start its process: {error}")
                continue
            if helper is not None:
                asked[helper] = None
        if not self._answered:
            self.starter.await_ready(asked)
        ranks = self.ranks.encode() if asked else ""
        for helper in asked:
            helper.ask(ranks)

    def tables(self, ranks: Sequence[WatchedRank]) -> Tables:
        """Return rows for one attempt's segment; probes of one kind share a table."""
        of_process = {rank.reader.identity.pid: rank.reader.identity.rank for rank in ranks}
        parts: dict[int, list[Rows]] = {}
        named: dict[str, Rows] = {}
        for probe in self.probes:
            answer = self._fresh.get(probe.name)
            if answer is not None and answer.rows is not None:
                rows = probe.rows_of(assigned(answer.rows, answer.owners, of_process), ranks)
                if len(rows):
                    parts.setdefault(probe.kind, []).append(rows)
                    named[probe.name] = rows
        facts = self.facts.rows(self._clock.monotonic_ns(), of_process)
        if len(facts):
            parts[Kind.NODE_FACT] = [facts]
        if Kind.DEVICE in parts:
            parts[Kind.DEVICE] = [
                joined([named[probe_name] for probe_name in DEVICE_PROBES if probe_name in named])
            ]
        return {
            Kind(kind): joined_rows(tables, DTYPES[Kind(kind)]) for kind, tables in parts.items()
        }

    def node_facts(self) -> Rows:
        """Return the facts to report as node rows, without a rank."""
        return self.facts.rows(self._clock.monotonic_ns(), {})

    def devices(self) -> Rows:
        """Return the newest DEVICE row for each readable device."""
        tables = [self.latest.get(probe_name) for probe_name in DEVICE_PROBES]
        return joined([rows for rows in tables if rows is not None])

    def close(self) -> None:
        """Close every probe and end its process."""
        for probe in self.probes:
            if not probe.isolated:
                probe.close()
        for process in self._processes.values():
            process.close()
        for shared in self._shared.values():
            shared.close()
        self.starter.close()

    def _unread(self) -> Iterator[Sighting]:
        """Yield probes that hang and unreadable sources, except sources that were never present."""
        late_probes = {name for name, reason in self.unknown.items() if reason is Unknown.LATE}
        yielding = {probe.name for probe in self.probes if probe.yields_to in late_probes}
        for name in {**self.details, **self.unknown}:
            if name in late_probes - yielding:
                yield Sighting(NodeFact.PROBE_HANGS, name, LATE_TEXT)
            elif name not in late_probes:
                reason = self.details.get(name) or self.unknown[name].value
                yield Sighting(NodeFact.SOURCE_UNREAD, name, reason)

    def _process_of(self, probe: Probe) -> ProbeProcess:
        process = self._processes.get(probe.name)
        if process is None or process.probe is not probe:
            shared = self._shared_by(probe)
            process = ProbeProcess(probe, self._clock, self.starter, shared)
            self._processes[probe.name] = process
        return process

    def _shared_by(self, probe: Probe) -> SharedProcess:
        helper = probe.helper()
        if helper not in self._shared:
            members = (
                candidate
                for candidate in self.probes
                if candidate.isolated and candidate.helper() == helper
            )
            self._shared[helper] = SharedProcess(members, self.starter)
        return self._shared[helper]

    def _await(self, processes: Sequence[ProbeProcess]) -> None:
        """Wait for all answers, at most `GRACE_SECONDS`."""
        end = self._clock.monotonic_ns() + round(GRACE_SECONDS * NANOSECONDS)
        while True:
            for process in processes:
                self._take(process)
            awaited = {process.awaited for process in processes} - {None}
            helpers = [helper for helper in awaited if helper is not None]
            left_s = (end - self._clock.monotonic_ns()) / NANOSECONDS
            if not helpers or left_s <= 0:
                return
            if not self.starter.wait(helpers, min(STALLED_SECONDS, left_s)):
                for helper in helpers:
                    helper.go_on()

    def _take(self, process: ProbeProcess) -> None:
        answer = process.take()
        if answer is not None:
            self._use(process.probe, answer)

    def _use(self, probe: Probe, answer: Answer[Rows]) -> None:
        self._answered.add(probe.name)
        if answer.rows is None:
            if answer.unknown is not Unknown.NO_SOURCE:
                self.details[probe.name] = answer.detail
            was_read = probe.name in self.up
            if was_read or answer.unknown in (Unknown.LATE, Unknown.FAILED):
                self._forget(probe, answer.unknown or Unknown.INVALID, answer.detail)
            return
        if self.unknown.pop(probe.name, None) is not None:
            logger.info("probe %s reads again", probe.name)
        self.details.pop(probe.name, None)
        self.up[probe.name] = True
        self.latest[probe.name] = answer.rows
        self._fresh[probe.name] = answer
        if probe.kind is Kind.DEVICE and answer.owners:
            self.ranks.devices = used_devices(answer)
        self.gauges[probe.name] = list(probe.gauges(answer.rows))
        self.facts.take(
            probe.name, self._primary_sightings(probe, answer), self._clock.monotonic_ns()
        )

    def _primary_sightings(self, probe: Probe, answer: Answer[Rows]) -> Sequence[Sighting]:
        """Return an answer's facts, except for devices that a better source reads.

        While the better source has not answered, no facts are returned.
        """
        better = {candidate.name for candidate in self.probes} & {probe.yields_to}
        if better - self._answered:
            return ()
        covered = {name_of(row) for row in self.latest.get(probe.yields_to, ())}
        return [sighting for sighting in answer.facts if sighting.subject not in covered]

    def _forget(self, probe: Probe, reason: Unknown, detail: str) -> None:
        if self.unknown.get(probe.name) is not reason:
            logger.warning("probe %s is unknown (%s): %s", probe.name, reason, detail)
        self.unknown[probe.name] = reason
        self.up[probe.name] = False
        self._fresh.pop(probe.name, None)
        self.latest.pop(probe.name, None)
        self.gauges.pop(probe.name, None)


def used_devices(answer: Answer[Rows]) -> dict[int, tuple[str, ...]]:
    """Return, for a device reading, each process's device addresses."""
    addresses: dict[int, tuple[str, ...]] = {}
    for row, pids in zip(() if answer.rows is None else answer.rows, answer.owners, strict=False):
        address = bytes(row["address"]).decode("ascii", "replace")
        for pid in pids if address else ():
            addresses[pid] = (*addresses.get(pid, ()), address)
    return addresses


def assigned(rows: Rows, owners: Sequence[frozenset[int]], ranks: Mapping[int, int]) -> Rows:
    """Return `rows` with their ranks; `owners` has process ids by row, `ranks` ranks by process id.

    A row that several ranks or no rank share belongs to the node.
    """
    if not owners:
        return rows
    rows = rows.copy()
    for row, pids in zip(rows, owners, strict=False):
        owner_ranks = {ranks[pid] for pid in pids if pid in ranks}
        if len(owner_ranks) == 1:
            row["rank"] = owner_ranks.pop()
    return rows
