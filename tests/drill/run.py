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
from .chain.pager import FIRING, RESOLVED
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

_TICKET_SECONDS = 120.0
"""How long the last ticket may take: its group waits for up to one minute."""


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
        _wait_for_notifications(site, done)
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
    except (DrillError, OSError) as error:
        site.training.kill()
        tell(str(error))
        severity = drill.expected[0].severity
        return Row(drill.name, "none", "", -1, severity, *(NEVER,) * 3, 0, NEVER, (str(error),))


def _check(site: Site, name: str) -> Check:
    tell = _teller(name)
    tell("starts")
    try:
        found = CHECKS[name](site, tell)
    except (DrillError, OSError) as error:
        site.training.kill()
        found = Check(name, "it could not be held", NEVER, (str(error),))
    tell("; ".join(found.problems) or "as it should be")
    return found


def _wait_for_notifications(site: Site, done: list[Held | Row]) -> None:
    """Wait until what is on its way has arrived: tickets, pages, and the ends of pages.

    The ends of tickets wait five minutes for each other, and the drill does not wait for them.
    """
    alerted = [held for held in done if isinstance(held, Held) and held.alert]
    if alerted:
        _teller("notifications")("waits")
    for held in alerted:
        wait(_TICKET_SECONDS, lambda held=held: bool(held.arrived(site, FIRING)))  # type: ignore[misc]
        if held.of_page and held.arrived(site, FIRING):
            wait(_END_SECONDS, lambda held=held: bool(held.arrived(site, RESOLVED)))  # type: ignore[misc]


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
