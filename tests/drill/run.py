"""Every drill that was chosen, one after the other, on one site."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from . import held as one
from .chain.pager import RESOLVED
from .chain.servers import DrillError
from .chain.site import Site, wait
from .faults import Drill
from .healthy import train_healthy
from .held import NEVER, Held
from .itself import CHECKS
from .scoreboard import Board, Check, Healthy
from .shown import Row, row

_END_SECONDS = 420.0
"""How long the end of a page may take: the alert is kept for up to two minutes, and its group
waits for up to one."""


class Chosen(NamedTuple):
    """What is held."""

    drills: tuple[Drill, ...]
    checks: tuple[str, ...] = ()
    healthy_seconds: float = 0.0


def hold_all(folder: Path, chosen: Chosen) -> tuple[Board, bool]:
    """Hold them; returns what was shown, and whether somebody stopped it.

    Raises:
        DrillError, OSError: the chain cannot be started.
    """
    done: list[Held | Row] = []
    checks: list[Check] = []
    healthy: Healthy | None = None
    was_stopped = False
    site = Site(folder)
    try:
        site.start()
        for number, drill in enumerate(chosen.drills, 1):
            done.append(_hold(site, drill, f"{number} of {len(chosen.drills)}: {drill.name}"))
        if chosen.healthy_seconds:
            healthy = train_healthy(site, chosen.healthy_seconds, _teller("healthy"))
        for name in chosen.checks:
            checks.append(_check(site, name))
        _wait_for_ends(site, done)
    except KeyboardInterrupt:
        was_stopped = True
        print("drill: stopped; what is done:", file=sys.stderr)
    finally:
        with _uninterrupted():
            rows = [_row(site, each, not was_stopped) for each in done]
            site.close()
    return Board(rows, checks, healthy), was_stopped


def _hold(site: Site, drill: Drill, name: str) -> Held | Row:
    tell = _teller(name)
    tell("starts")
    try:
        return one.hold(site, drill, tell)
    except DrillError as error:
        site.training.kill()
        tell(str(error))
        severity = drill.expected[0].severity
        return Row(drill.name, "none", "", -1, severity, *(NEVER,) * 3, 0, NEVER, (str(error),))


def _check(site: Site, name: str) -> Check:
    tell = _teller(name)
    tell("starts")
    try:
        found = CHECKS[name](site, tell)
    except DrillError as error:
        site.training.kill()
        found = Check(name, "it could not be held", NEVER, (str(error),))
    tell("; ".join(found.problems) or "as it should be")
    return found


def _wait_for_ends(site: Site, done: list[Held | Row]) -> None:
    """Wait until the ends of pages have arrived; those of tickets wait five minutes for each
    other, and the drill does not."""
    tell = _teller("ends of pages")
    open_ones = [each for each in done if isinstance(each, Held) and each.of_page]
    if open_ones:
        tell("waits")
    for each in open_ones:
        if each.arrived(site, "firing"):
            wait(_END_SECONDS, lambda held=each: bool(held.arrived(site, RESOLVED)))  # type: ignore[misc]


def _row(site: Site, done: Held | Row, was_waited_for: bool) -> Row:
    return done if isinstance(done, Row) else row(site, done, was_waited_for)


def _teller(name: str) -> one.Tell:
    began = time.monotonic()

    def tell(what: str) -> None:
        print(f"{name}: {time.monotonic() - began:4.0f} s  {what}", file=sys.stderr, flush=True)

    return tell


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C does not keep from ending what was started."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
