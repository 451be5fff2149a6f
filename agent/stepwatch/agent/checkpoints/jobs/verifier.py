"""Reads reported checkpoints in a process with idle priority, and reports what it found."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from stepwatch.agent.checkpoints.limits import Limits
from stepwatch.agent.checkpoints.options import Options
from stepwatch.agent.checkpoints.result import Problem, Report, State, Weight
from stepwatch.agent.checkpoints.supervised import verify_supervised
from stepwatch.agent.keys import AttemptKey, Tables
from stepwatch.agent.rings.tail import RingTail
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals.clock import NANOSECONDS, Clock
from stepwatch.signals.records import Verification
from stepwatch.signals.wire import Rows

from .options import CheckpointOptions
from .paths import PathPieces
from .register import NEVER_S, KnownCheckpoint, Register
from .rows import first_problem, verification_rows

logger = logging.getLogger(__name__)

FOLDER = "checkpoints"
"""The register's folder in the spool folder."""
MOST_TRIES = 6
"""Readings without a result, at intervals that double: over half an hour with the defaults."""
MOST_ROWS = 4096
"""Maximum number of results that wait for an unwritable spool; the oldest are dropped first."""
_SEARCH_SECONDS = 10.0
"""Time for the search for deleted checkpoints."""


class JobCheckpoints:
    """Verifies reported checkpoints one at a time, newest first; `folder` holds the register.

    Nothing runs before the first path.
    """

    def __init__(self, folder: Path, options: CheckpointOptions, clock: Clock) -> None:
        self.options = options
        self.thread = SupervisedThread("checkpoints", self._run, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._register = Register(folder)
        self._pieces = PathPieces()
        self._rows: list[tuple[AttemptKey, Rows]] = []
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._search: threading.Thread | None = None

    def start(self) -> None:
        """Read an earlier agent's unfinished checkpoints, if there are any."""
        if self._register.entries and not self.thread.started:
            self.thread.start()

    def follow(self, key: AttemptKey, tails: Iterable[RingTail], tables: Tables) -> None:
        """Note the paths in an attempt's new LIFECYCLE records."""
        paths = self._pieces.paths(key, tables)
        if not paths:
            return
        owners = {tail.reader.identity.rank: tail.reader.owner for tail in tails}
        now_s = self._now_s()
        with self._lock:
            for rank, step, path in paths:
                due_s = now_s + self.options.delay_seconds
                user = owners.get(rank, os.geteuid())
                self._add(KnownCheckpoint(*key, rank, step, path, user, now_s, due_s))
        self._woken.set()
        if not self.thread.started:
            self.thread.start()

    def collect(self) -> dict[AttemptKey, Rows]:
        """Return the new results as VERIFICATION rows by attempt; `put_back` what was not sent."""
        with self._lock:
            rows, self._rows = self._rows, []
        by_key: dict[AttemptKey, list[Rows]] = {}
        for key, row in rows:
            by_key.setdefault(key, []).append(row)
        return {key: np.concatenate(parts) for key, parts in by_key.items()}

    def put_back(self, key: AttemptKey, rows: Rows) -> None:
        """Keep results that could not be spooled for the next `collect`."""
        with self._lock:
            self._rows = [(key, rows), *self._rows][-MOST_ROWS:]

    def stop(self) -> None:
        """End the reading process and the thread; the next agent reads the checkpoint again."""
        self._stopping.set()
        self._woken.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()

    def _now_s(self) -> float:
        return self._clock.wall_ns() / NANOSECONDS

    def _add(self, entry: KnownCheckpoint) -> None:
        """Register a checkpoint; one at the same path with another step was replaced by it."""
        known = self._register.entries.get(entry.name)
        if known is not None:
            self._register.remove(known)
            if known.state == "unknown" and not known.tries:  # saves are faster than the delay
                entry.due_s = min(entry.due_s, known.due_s)
            if (known.key, known.step) != (entry.key, entry.step):
                self._report(known, Verification.REMOVED, f"step {entry.step} replaced it")
        self._register.put(entry, {})
        self._report(entry, Verification.WAITING, "")

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            entry = self._next()
            if entry is not None:
                self._verify(entry)
                self._stopping.wait(self.options.pause_seconds)
            else:
                self._woken.wait(self._wait_seconds())

    def _wait_seconds(self) -> float:
        with self._lock:
            due_s = min((entry.due_s for entry in self._register.entries.values()), default=NEVER_S)
        return min(max(due_s - self._now_s(), 0.05), 60.0)

    def _next(self) -> KnownCheckpoint | None:
        """Return the newest due checkpoint; those that verified before come last."""
        now_s = self._now_s()
        with self._lock:
            due = [entry for entry in self._register.entries.values() if entry.due_s <= now_s]
        return max(due, key=lambda entry: (not entry.verified_s, entry.reported_s), default=None)

    def _verify(self, entry: KnownCheckpoint) -> None:
        report = self._read(entry)
        if self._stopping.is_set():
            return
        with self._lock:
            if self._register.entries.get(entry.name) is entry:  # not replaced meanwhile
                self._apply(entry, report)
        if report.state is State.VERIFIED:
            self._find_removed(entry.job)

    def _read(self, entry: KnownCheckpoint) -> Report:
        """Read a checkpoint; files that were written again since they verified have no manifest."""
        expected = self._register.digests(entry) if entry.verified_s else {}
        options = Options(
            timeout_s=self.options.timeout_seconds,
            rate=self.options.rate,
            digests=True,
            expected=expected,
            limits=Limits(
                settle_seconds=self.options.settle_seconds, memory_bytes=self.options.memory_bytes
            ),
            owner=None if entry.user in (0, os.geteuid()) else entry.user,
        )
        report = self._supervised(entry, options)
        if expected and not report.missing and report.changed_s > entry.changed_s:
            return self._supervised(entry, replace(options, expected={}))
        return report

    def _supervised(self, entry: KnownCheckpoint, options: Options) -> Report:
        try:
            return verify_supervised(entry.path, options, started=self._note_process)
        except OSError as error:
            reason = f"no process can read it: {error.strerror or error}"
            problem = Problem("", reason, Weight.UNKNOWN)
            return Report(entry.path, State.UNKNOWN, "", None, 0, 0, 0, 0.0, (problem,))

    def _note_process(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._stopping.is_set():
            process.kill()

    def _apply(self, entry: KnownCheckpoint, report: Report) -> None:
        now_s = self._now_s()
        was_there = entry.verified_s > 0 or self._has_successor(entry)
        if report.missing and was_there and _is_deleted(entry.path):
            self._remove(entry)
        elif report.state is State.VERIFIED:
            entry.state, entry.reason, entry.tries, entry.is_suspect = "verified", "", 0, False
            entry.verified_s, entry.changed_s = now_s, report.changed_s
            entry.due_s = NEVER_S
            self._move(entry, report.path)
            self._register.put(entry, report.digests)
            self._report(entry, Verification.VERIFIED, "", report)
        elif report.state is State.DAMAGED and entry.verified_s and not entry.is_suspect:
            # A storage may return wrong bytes once: two readings accuse a good checkpoint.
            entry.is_suspect, entry.due_s = True, now_s + self.options.settle_seconds
            self._register.put(entry)
        elif report.state is State.DAMAGED:
            file, reason = first_problem(report)
            entry.state, entry.reason, entry.due_s = "damaged", f"{file}: {reason}", NEVER_S
            self._register.put(entry)
            self._report(entry, Verification.DAMAGED, reason, report, file)
        else:
            self._apply_unknown(entry, report, now_s)

    def _apply_unknown(self, entry: KnownCheckpoint, report: Report, now_s: float) -> None:
        """Read it again later; a checkpoint that verified before stays so meanwhile."""
        entry.tries += 1
        wait_s = self.options.settle_seconds * 2 ** (entry.tries - 1)
        entry.due_s = now_s + wait_s if entry.tries < MOST_TRIES else NEVER_S
        file, reason = first_problem(report)
        if report.missing:
            file, reason = "", "nothing is at its path on this node"
        if not entry.verified_s and entry.reason != f"{file}: {reason}":
            entry.reason = f"{file}: {reason}"
            self._report(entry, Verification.UNKNOWN, reason, report, file)
        self._register.put(entry)

    def _schedule(self, job: str) -> None:
        """Let only the job's newest good checkpoint be read again, in the interval."""
        good = [entry for entry in self._register.of_job(job) if entry.verified_s]
        newest = max(good, key=lambda entry: (entry.attempt, entry.step), default=None)
        for entry in good:
            if entry.state != "verified" or entry.is_suspect:
                continue
            is_read = entry is newest and self.options.every_seconds > 0
            due_s = entry.verified_s + self.options.every_seconds if is_read else NEVER_S
            if due_s != entry.due_s:
                entry.due_s = due_s
                self._register.put(entry)

    def _move(self, entry: KnownCheckpoint, path: str) -> None:
        """Note the final path of files that were written under another name."""
        if path == entry.path:
            return
        self._register.remove(entry)
        entry.path = path
        known = self._register.entries.get(entry.name)
        if known is not None:
            self._register.remove(known)
            self._report(known, Verification.REMOVED, f"step {entry.step} replaced it")

    def _find_removed(self, job: str) -> None:
        """Report the job's good checkpoints that were deleted since, if the storage answers."""
        if self._search is not None and self._search.is_alive():
            return
        with self._lock:
            good = [entry for entry in self._register.of_job(job) if entry.verified_s]
        deleted: list[KnownCheckpoint] = []

        def search() -> None:
            deleted.extend(entry for entry in good if _is_deleted(entry.path))

        self._search = threading.Thread(target=search, name="deleted-checkpoints", daemon=True)
        self._search.start()
        self._search.join(_SEARCH_SECONDS)
        with self._lock:
            for entry in () if self._search.is_alive() else deleted:
                if self._register.entries.get(entry.name) is entry:
                    self._remove(entry)
            self._schedule(job)

    def _has_successor(self, entry: KnownCheckpoint) -> bool:
        """Whether the job saved into the same folder since: a trainer keeps the newest ones."""
        folder = os.path.dirname(entry.path)
        return any(
            item.step > entry.step and os.path.dirname(item.path) == folder
            for item in self._register.of_job(entry.job)
        )

    def _remove(self, entry: KnownCheckpoint) -> None:
        self._report(entry, Verification.REMOVED, "it was deleted")
        self._register.remove(entry)

    def _report(
        self,
        entry: KnownCheckpoint,
        state: Verification,
        reason: str,
        report: Report | None = None,
        file: str = "",
    ) -> None:
        rows = verification_rows(entry, state, reason, report, file)
        rows["time_ns"] = self._clock.monotonic_ns()
        self._rows.append((entry.key, rows))
        del self._rows[:-MOST_ROWS]


def _is_deleted(path: str) -> bool:
    """Return whether a path is gone but not its folder, as when the storage is not mounted."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return os.path.isdir(os.path.dirname(path))
    except OSError:
        return False
    return False
