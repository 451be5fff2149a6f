"""Runs the chosen drills one after another on one site."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from . import trial as trials
from .chain.pager import FIRING, RESOLVED
from .chain.servers import DrillError
from .chain.site import Site, wait
from .chain_checks import CHECKS
from .faults import Drill
from .healthy import train_healthy
from .outcome import Row, make_row
from .scoreboard import Board, Check, Healthy
from .trial import NEVER, Trial

_END_SECONDS = 420.0
"""Limit for a page's end: Prometheus keeps the alert for up to two minutes, and its group waits for
up to one.
"""

_TICKET_SECONDS = 120.0
"""Limit for the last ticket: its group waits for up to one minute."""


class Choice(NamedTuple):
    """The drills, checks and healthy seconds to run."""

    drills: tuple[Drill, ...]
    checks: tuple[str, ...] = ()
    healthy_seconds: float = 0.0


def run_all(folder: Path, chosen: Choice) -> tuple[Board, bool]:
    """Run the choice; return the scoreboard, and whether Ctrl-C stopped it.

    Raises:
        DrillError, OSError: the chain cannot be started.
    """
    outcomes: list[Trial | Row] = []
    checks: list[Check] = []
    healthy: Healthy | None = None
    was_stopped = False
    site = Site(folder)
    try:
        site.start()
        for number, drill in enumerate(chosen.drills, 1):
            outcomes.append(
                _run_drill(site, drill, f"{number} of {len(chosen.drills)}: {drill.name}")
            )
        if chosen.healthy_seconds:
            healthy = train_healthy(site, chosen.healthy_seconds, _teller("healthy"))
        for name in chosen.checks:
            checks.append(_check(site, name))
        _wait_for_notifications(site, outcomes)
    except KeyboardInterrupt:
        was_stopped = True
        print("drill: stopped; what is done:", file=sys.stderr)
    finally:
        with _ignore_interrupts():
            rows = [_outcome_row(site, outcome, not was_stopped) for outcome in outcomes]
            site.close()
    return Board(rows, checks, healthy), was_stopped


def _run_drill(site: Site, drill: Drill, name: str) -> Trial | Row:
    tell = _teller(name)
    tell("starts")
    try:
        return trials.run_drill(site, drill, tell)
    except (DrillError, OSError) as error:
        site.training.kill()
        tell(str(error))
        severity = drill.expectations[0].severity
        return Row(drill.name, "none", "", -1, severity, *(NEVER,) * 3, 0, NEVER, (str(error),))


def _check(site: Site, name: str) -> Check:
    tell = _teller(name)
    tell("starts")
    try:
        check = CHECKS[name](site, tell)
    except (DrillError, OSError) as error:
        site.training.kill()
        check = Check(name, "it could not be held", NEVER, (str(error),))
    tell("; ".join(check.problems) or "as it should be")
    return check


def _wait_for_notifications(site: Site, outcomes: list[Trial | Row]) -> None:
    """Wait until all outstanding notifications have arrived: tickets, pages, and the ends of pages.

    The ends of tickets wait five minutes for each other, and the drill does not wait for them.
    """
    alerted = [outcome for outcome in outcomes if isinstance(outcome, Trial) and outcome.alert]
    if alerted:
        _teller("notifications")("waits")
    for trial in alerted:
        wait(_TICKET_SECONDS, lambda trial=trial: bool(trial.notifications(site, FIRING)))  # type: ignore[misc]
        if trial.is_page and trial.notifications(site, FIRING):
            wait(_END_SECONDS, lambda trial=trial: bool(trial.notifications(site, RESOLVED)))  # type: ignore[misc]


def _outcome_row(site: Site, outcome: Trial | Row, was_waited_for: bool) -> Row:
    return outcome if isinstance(outcome, Row) else make_row(site, outcome, was_waited_for)


def _teller(name: str) -> trials.Tell:
    began = time.monotonic()

    def tell(message: str) -> None:
        print(f"{name}: {time.monotonic() - began:4.0f} s  {message}", file=sys.stderr, flush=True)

    return tell


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore a second Ctrl-C while the chain is taken down."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
