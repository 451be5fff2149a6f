"""A soak: start collectors and a fleet, disturb them, end them, and compare. This one kills one."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from stepwatch.collector.store import Store
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor

from . import comparison, receipts, reference, slices
from .comparison import Check
from .counters import Scraper
from .log import StoredLog, read_log
from .plan import JOB, Plan
from .processes import PYTHON, Collector, SoakError, end, last_line, spawn

PROGRESS_SECONDS = 30.0
_SETTLE_SECONDS = 15.0
"""After the job is over: it is evaluated for ten seconds more."""
_OVER_SECONDS = 600.0
_DEAD_SECONDS = 3.0
"""A killed collector restarts within this time."""
Note = Callable[[str], None]


@dataclass
class Disturbances:
    """The disturbances of collectors, and their recoveries; seconds."""

    counts: Counter[str] = field(default_factory=Counter)
    back_seconds: list[float] = field(default_factory=list)
    """From a start to an answer."""
    gaps: list[float] = field(default_factory=list)
    """Until all was as before."""

    def words(self) -> str:
        """Return the number of disturbances of each kind, in words."""
        return ", ".join(f"{action} {count} times" for action, count in self.counts.items())


class Soak:
    """One run of `plan`; `note` prints a line. `close` ends every process in any case."""

    def __init__(self, plan: Plan, note: Note) -> None:
        self.plan = plan
        self.disturbances = Disturbances()
        self._note = note
        self._last_note_at = 0.0
        self._began = time.monotonic()
        self._random = random.Random(plan.seed)
        self._store = plan.store
        self._collectors: list[Collector] = []
        self._scrapers: list[Scraper] = []
        self._sender: subprocess.Popen[bytes] | None = None

    def run(self) -> list[Check]:
        """Run the whole plan; return the checks.

        Raises:
            SoakError: a process failed.
        """
        self._start()
        self._scrapers = [Scraper(collector) for collector in self._collectors]
        first, *peers = (collector.url for collector in self._collectors)
        self._sender = spawn(
            self.plan.folder / "sender.log", PYTHON, "-m", "tests.soak.sender",
            "--collector", first, *(word for url in peers for word in ("--also", url)),
            "--receipts", str(self._receipts), "--json", str(self._report),
            *self.plan.simulation,
        )  # fmt: skip
        self._disturb(self._sender)
        self._wait_for_end(self._sender)
        for scraper in self._scrapers:
            scraper.close()
        codes = [collector.end() for collector in self._collectors]
        exit_codes = ", ".join(map(str, codes))
        return [
            Check("collectors stopped cleanly", f"exit code {exit_codes}", not any(codes)),
            *self._checks(),
        ]

    def close(self) -> None:
        """End all processes."""
        if self._sender is not None:
            end(self._sender, signal.SIGKILL)
        for collector in self._collectors:
            collector.end(signal.SIGKILL)
        for scraper in self._scrapers:
            scraper.close()

    def _start(self) -> None:
        """Start the collectors that will be disturbed."""
        self._collectors = [Collector(self.plan.folder, "collector", self._store)]
        self._collectors[0].start()

    @property
    def _receipts(self) -> Path:
        return self.plan.folder / "receipts"

    @property
    def _report(self) -> Path:
        return self.plan.folder / "report.json"

    @property
    def _fleet(self) -> str:
        """The fleet's last line of output."""
        return last_line(self.plan.folder / "sender.log")

    def _disturb(self, sender: subprocess.Popen[bytes]) -> None:
        """Disturb collectors at random moments, while the fleet runs."""
        least, most = self.plan.kill_seconds
        until = self._began + self.plan.seconds
        while True:
            wait = self._random.uniform(least, most)
            if time.monotonic() + wait > until:
                return
            if self._wait(wait, sender):
                return
            began = time.monotonic()
            self._disturb_once(sender)
            self.disturbances.gaps.append(time.monotonic() - began)

    def _disturb_once(self, sender: subprocess.Popen[bytes]) -> None:
        """Disturb a collector once, and undo it."""
        self._kill(self._collectors[0], sender)

    def _kill(self, collector: Collector, sender: subprocess.Popen[bytes]) -> None:
        """Kill a collector with -9 and start it again."""
        collector.end(signal.SIGKILL)
        self.disturbances.counts["killed"] += 1
        self._wait(self._random.uniform(0.0, _DEAD_SECONDS), sender)
        self.disturbances.back_seconds.append(collector.start(self._progress))

    def _wait(self, seconds: float, sender: subprocess.Popen[bytes]) -> bool:
        """Wait for `seconds` with progress lines; return whether the fleet ended early."""
        until = time.monotonic() + seconds
        while (remaining_s := until - time.monotonic()) > 0:
            if sender.poll() is not None:
                return True
            time.sleep(min(remaining_s, 0.2))
            self._progress()
        return False

    def _progress(self) -> None:
        now = time.monotonic()
        if now - self._last_note_at < PROGRESS_SECONDS:
            return
        self._last_note_at = now
        back = self.disturbances.back_seconds
        last = f", last back after {back[-1]:.1f} s" if back else ""
        disturbances = self.disturbances.words() or "not disturbed yet"
        self._note(f"{now - self._began:5.0f} s  {disturbances}{last}; fleet {self._fleet}")

    def _wait_for_end(self, sender: subprocess.Popen[bytes]) -> None:
        """Wait for the fleet's end, and until the collector has evaluated all of it."""
        deadline = time.monotonic() + self.plan.seconds + _OVER_SECONDS
        while not self._wait(1.0, sender):
            if time.monotonic() > deadline:
                raise SoakError(f"the fleet did not end: {self._fleet}")
        while self._state() not in ("finished", "interrupted", "failed"):
            if time.monotonic() > deadline:
                raise SoakError(f"the job is {self._state()} after the fleet ended")
            time.sleep(1.0)
        time.sleep(_SETTLE_SECONDS)
        self._settle(deadline)

    def _settle(self, deadline: float) -> None:
        """Wait for the collectors' work after a job's end, until `deadline` (monotonic)."""

    def _state(self) -> str | None:
        """Return the job's state; None if no collector knows it."""
        for collector in self._collectors:
            try:
                jobs = httpx.get(f"{collector.url}/v1/jobs", timeout=30.0).json()["jobs"]
            except (httpx.HTTPError, ValueError):
                continue
            for job in jobs:
                if job["job"] == JOB:
                    return str(job["state"])
        return None

    def _checks(self) -> Iterator[Check]:
        self._note("the fleet ended; reading what is stored")
        store = open_store(self._store)
        try:
            # Compacted segments are compared, too.
            compactor = Compactor(store.engine, lambda _: False)
            compacted = compactor.compact(Compaction(0.0, 0.0), time.time_ns())
            self._note(f"put {compacted.segments:,} segments into {compacted.bundles:,} bundles")
            log = read_log(store, JOB, self.plan.folder / "segments")
            yield from self._log_checks(log)
            for sli, expected in slices.brute_force(log, self.plan.ranks).items():
                yield comparison.same_slices(sli, store.slice_rows(JOB, sli), expected)
            incidents = store.incidents.newest(JOB)
        finally:
            store.close()
        undisturbed = reference.undisturbed_incidents(log, JOB, self._note_slowly)
        gap = max(self.disturbances.gaps, default=0.0)
        yield from comparison.same_incidents(incidents, undisturbed, gap)
        yield comparison.faults_found(self.plan.faults, undisturbed)
        for scraper in self._scrapers:
            yield comparison.never_fell(scraper.falls)

    def _log_checks(self, log: StoredLog) -> Iterator[Check]:
        yield from comparison.stored_once(receipts.read(self._receipts), log.stored)
        yield comparison.positions_once(log.stored["position"])
        steps = json.loads(self._report.read_text())["newest_step"] + 1
        yield comparison.records_once(log.steps, self.plan.ranks, steps)

    def _note_slowly(self, words: str) -> None:
        if time.monotonic() - self._last_note_at >= PROGRESS_SECONDS:
            self._last_note_at = time.monotonic()
            self._note(words)


def open_store(place: str) -> Store:
    """The store of a collector that is stopped, a file or a URL."""
    return Store(place) if "://" in place else Store.sqlite(Path(place))
