"""How long a step waits for the ranks that have not reported it, and when it counts without them.

As soon as a later step is complete, since a rank reports in order. Where none is, as an agent is
gone, once `GIVE_UP_STEPS` newer steps exist, or fewer that took `GIVE_UP_SECONDS` together. These
are counted by how long steps take, not by when they ended: clocks of hosts differ, and are set.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.signals.arrays import Floats, Integers
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.pacing import MOST_ASKED_SECONDS
from stepwatch.signals.wire import Rows

GIVE_UP_STEPS = 64
"""Newer steps after which a step counts as it stands, however short they are."""
GIVE_UP_FEW, GIVE_UP_SECONDS = 4, 3 * MOST_ASKED_SECONDS
"""The same of steps that took so many seconds together: three of the longest flushes."""
_ROUNDED = 1e-6
"""Seconds that sums of the same steps may differ by."""


def complete_or_given_up(rows: Rows, world: int) -> int:
    """How many of the unsettled steps, rows of the history, need no longer wait for a host.

    Of four ranks 4 3 4 3 3 3 3 3 reported steps of 8 s each: the first three, as the third is
    complete, and the fourth, after which four were made in 32 s.
    """
    reported = rows["reported"]
    complete, known = np.flatnonzero(reported >= world), np.flatnonzero(reported)
    due = int(complete[-1]) + 1 if len(complete) else 0
    if len(known) > GIVE_UP_STEPS:
        due = max(due, int(known[-GIVE_UP_STEPS - 1]) + 1)
    if len(known) > GIVE_UP_FEW:
        few = known[:-GIVE_UP_FEW]
        taken = _taken(rows["longest"][known])
        long_ago = np.flatnonzero(taken[-1] - taken[: len(few)] >= GIVE_UP_SECONDS)
        due = max(due, int(few[long_ago[-1]]) + 1 if len(long_ago) else 0)
    return due


def newest_given_up(host: Fresh, rows: Rows, span: tuple[int, int], awaited: int) -> Integers:
    """The newest step that may count as it stands once so many batches of `span` came (batches +
    1,), whatever ranks are missing; `rows` are those of the history from step `awaited` on, which
    have room for the steps of `host` and not yet what it says of them.

    By what all of its rows say: each step may have taken as long before the last of them came, so
    none is given up earlier than this.
    """
    newest = awaited + int(np.flatnonzero(rows["reported"]).max(initial=0))
    seen = np.full(span[1] - span[0] + 1, newest, dtype=np.int64)
    np.maximum.at(seen, host.origin - span[0] + 1, host.steps)
    seen = np.maximum.accumulate(seen)
    longest, at = rows["longest"].astype(np.float64), host.steps - awaited
    np.maximum.at(longest, at[at >= 0], _seconds(host.rows)[at >= 0])
    taken = _taken(longest)
    if not len(taken):
        return seen - GIVE_UP_STEPS
    until = taken[np.clip(seen - awaited, 0, len(taken) - 1)] - GIVE_UP_SECONDS + _ROUNDED
    long_ago = awaited + np.searchsorted(taken, until, side="right") - 1
    return np.asarray(np.maximum(seen - GIVE_UP_STEPS, long_ago))


def _taken(longest: Floats) -> Floats:
    """Seconds that steps took, each with all before it."""
    return np.asarray(np.cumsum(longest.astype(np.float64)))


def _seconds(rows: Rows) -> Floats:
    """What each STEP row took without pauses, as the history has it."""
    pauses = rows["checkpoint_ns"] + rows["eval_ns"]
    found = np.maximum(rows["duration_ns"].astype(np.float64) - pauses, 0.0) / NANOSECONDS
    return np.asarray(found)


def newest_complete(
    fresh: Fresh, known: Integers, span: tuple[int, int], world: int, before: int
) -> Integers:
    """Newest step that `world` ranks reported once so many batches of `span` came (batches + 1,).

    `known` (rows,) holds how many ranks reported the step of each row before, `before` the newest
    complete step then. Two of two ranks, batches 0, 0, 1: steps 5, 5, 4 -> before, 5, 5.
    """
    steps = fresh.steps
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    begins = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    firsts = np.flatnonzero(begins)
    numbers, counts = ordered[firsts], np.append(firsts[1:], len(ordered))[: len(firsts)] - firsts
    missing = world - known[order][firsts].astype(np.int64)
    complete = (missing > 0) & (missing <= counts)
    completing = order[(firsts + missing - 1)[complete]]
    done = np.full(span[1] - span[0] + 1, before, dtype=np.int64)
    np.maximum.at(done, fresh.origin[completing] - span[0] + 1, numbers[complete])
    return np.asarray(np.maximum.accumulate(done))
