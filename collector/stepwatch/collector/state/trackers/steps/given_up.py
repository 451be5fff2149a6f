"""How long a step waits for missing ranks, and when it counts without them.

It ends as soon as a later step is complete, since a rank reports in order. Without a later complete
step, as after the loss of an agent, it ends once `GIVE_UP_STEPS` newer steps exist, or once
`GIVE_UP_FEW` newer steps exist and `GIVE_UP_SECONDS` have passed since its first row was received.
The collector's receive times count: host clocks differ, and agents send all spooled rows at once
after an outage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.collector.state.folding.fresh import Fresh
from stepwatch.signals.arrays import Integers
from stepwatch.signals.pacing import MOST_ASKED_SECONDS
from stepwatch.signals.wire import Rows

Column = np.ndarray[tuple[int], np.dtype[Any]]

GIVE_UP_STEPS = 64
"""Newer steps after which a step counts as it is, however short they are."""
GIVE_UP_FEW, GIVE_UP_SECONDS = 4, 6 * MOST_ASKED_SECONDS
"""Newer steps, and seconds after the first row, after which a step counts.

The time is six times the longest flush interval, so an agent may be offline that long without
losing spooled rows.
"""


def complete_or_given_up(rows: Rows, world: int, received_s: float) -> int:
    """Return how many of the unsettled history rows need no longer wait for a host.

    `received_s` is the newest row's receive time (Unix). Four ranks; 4 3 4 3 3 3 3 3 reported steps
    with 20 s each: the first three, as the third is complete, and the fourth, which four newer
    steps followed within 80 s.
    """
    reported = rows["reported"]
    complete, present = np.flatnonzero(reported >= world), np.flatnonzero(reported)
    due = int(complete[-1]) + 1 if len(complete) else 0
    if len(present) > GIVE_UP_STEPS:
        due = max(due, int(present[-GIVE_UP_STEPS - 1]) + 1)
    if len(present) > GIVE_UP_FEW:
        few = present[:-GIVE_UP_FEW]
        long_ago = few[rows["received_s"][few] <= received_s - GIVE_UP_SECONDS]
        due = max(due, int(long_ago[-1]) + 1 if len(long_ago) else 0)
    return due


def newest_given_up(
    host: Fresh, rows: Rows, span: tuple[int, int], awaited: int, received_s: float
) -> Integers:
    """Return the newest step that may count with missing ranks, per number of batches received.

    The result has shape (batches in `span` + 1,). `rows` are the history rows from step `awaited`
    on; they have room for the steps in `host` but not its values. A step's first row may be older
    than these batches, so no step is given up earlier than this.
    """
    newest = awaited + int(np.flatnonzero(rows["reported"]).max(initial=0))
    newest_steps: Integers = _so_far(newest, host.steps, host, span)
    if not len(rows):
        return newest_steps - GIVE_UP_STEPS
    now = _so_far(received_s, host.received_s, host, span)
    first, index = rows["received_s"].copy(), host.steps - awaited
    np.minimum.at(first, index[index >= 0], host.received_s[index >= 0])
    # First rows at 5, 7, 6, 9: the last step received by 6 is the third, with minima 5, 6, 6, 9.
    since = np.minimum.accumulate(first[::-1])[::-1]
    long_ago = awaited + np.searchsorted(since, now - GIVE_UP_SECONDS, side="right") - 1
    return np.asarray(np.maximum(newest_steps - GIVE_UP_STEPS, long_ago))


def _so_far(start: float, values: Column, host: Fresh, span: tuple[int, int]) -> Column:
    """Return the running maximum of `start` and `values` (rows,), per batches received."""
    running: Column = np.full(span[1] - span[0] + 1, start, dtype=values.dtype)
    np.maximum.at(running, host.origin - span[0] + 1, values)
    return np.maximum.accumulate(running)


def newest_complete(
    fresh: Fresh, reported: Integers, span: tuple[int, int], world: int, previous: int
) -> Integers:
    """Return the newest step that `world` ranks reported, per number of batches received.

    The result has shape (batches in `span` + 1,). `reported` (rows,) is the number of ranks that
    reported each row's step earlier, `previous` the newest complete step at that time. Two of two
    ranks, batches 0, 0, 1: steps 5, 5, 4 -> previous, 5, 5.
    """
    steps = fresh.steps
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    begins = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    firsts = np.flatnonzero(begins)
    numbers, counts = ordered[firsts], np.append(firsts[1:], len(ordered))[: len(firsts)] - firsts
    missing = world - reported[order][firsts].astype(np.int64)
    complete = (missing > 0) & (missing <= counts)
    completing = order[(firsts + missing - 1)[complete]]
    complete_steps = np.full(span[1] - span[0] + 1, previous, dtype=np.int64)
    np.maximum.at(complete_steps, fresh.origin[completing] - span[0] + 1, numbers[complete])
    return np.asarray(np.maximum.accumulate(complete_steps))
