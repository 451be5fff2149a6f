"""Run all checks; a check that fails itself is unknown, and the others still run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import SimpleQueue
from typing import NamedTuple

from . import burn, hardware, job, libraries, limits, topology, watchdogs
from .burn import Meeting
from .result import Outcome, Result, Surroundings

Check = Callable[[Surroundings], Iterable[Result]]
CHECKS: Mapping[str, Check] = {
    "hardware": hardware.check,
    "topology": topology.check,
    "limits": limits.check,
    "libraries": libraries.check,
    "job": job.check,
    "watchdogs": watchdogs.check,
}
"""Check groups: those in `SLOW` begin first, the others run meanwhile in this order."""
SLOW = frozenset({"hardware", "libraries"})
"""Groups that wait: for rates over seconds, and for a child that imports torch."""
Arriving = SimpleQueue[list[Result]]
_CONTAINED = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError)


class Examined(NamedTuple):
    """All check results."""

    results: tuple[Result, ...]

    @property
    def failed(self) -> bool:
        """Return whether a job must not start here."""
        return any(result.outcome is Outcome.FAIL for result in self.results)

    @property
    def doubtful(self) -> bool:
        """Return whether a result is FAIL, WARN or UNKNOWN."""
        return any(result.outcome is not Outcome.PASS for result in self.results)


def examine(
    around: Surroundings,
    burn_seconds: float = 0.0,
    checks: Mapping[str, Check] = CHECKS,
    meeting: Meeting | None = None,
) -> Iterator[Result]:
    """Yield the results as they arrive.

    `burn_seconds` adds the self-test, `meeting` the test between nodes; both run last.
    """
    arriving: Arriving = SimpleQueue()
    slow = [(name, check) for name, check in checks.items() if name in SLOW]
    for name, check in slow:
        words = (name, check, around, arriving)
        # A daemon: Ctrl-C does not wait for it.
        threading.Thread(target=_send_results, args=words, name=name, daemon=True).start()
    for name, check in checks.items():
        if name not in SLOW:
            yield from _contained(name, check, around)
    for _ in slow:
        yield from arriving.get()
    if burn_seconds:
        yield from _contained("burn", lambda _: burn.check(burn_seconds, meeting), around)


def _send_results(name: str, check: Check, around: Surroundings, arriving: Arriving) -> None:
    """Run a check in its own thread."""
    results = [
        Result(name, Outcome.UNKNOWN, "the check itself failed; see stderr", "report it, with that")
    ]
    try:
        results = list(_contained(name, check, around))
    finally:
        arriving.put(results)


def _contained(name: str, check: Check, around: Surroundings) -> Iterator[Result]:
    try:
        yield from check(around)
    except (*_CONTAINED, ValueError) as error:
        text = f"the check itself failed: {type(error).__name__}: {error}"
        yield Result(name, Outcome.UNKNOWN, text, "report it, with this line")
