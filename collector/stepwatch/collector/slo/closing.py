"""Closes old slices: the steps in them leave the histories of a job, whatever its age.

Steps go once the slices in which they are stored, oldest first, and never some of a slice: all of
its steps go together, so that an open slice is the sum of steps that are held. What a later resume
needs of each is kept in `DroppedSteps.redoable`; of the oldest it is kept by slice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.collector.slo.slices import RunningSlices
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.step_facts import drop_steps, step_facts, usual_seconds
from stepwatch.collector.state.trackers.dropped_steps import REDOABLE
from stepwatch.collector.state.trackers.settled_steps import SettledSteps
from stepwatch.collector.store.slices import SLICE_SECONDS
from stepwatch.signals.arrays import Integers, Rows, Vector


class Limits(NamedTuple):
    """How many steps of a job, over all attempts, are held as rows.

    `held` are; so many `more` before some go. Steps that some rank has not reported are held until
    there are `incomplete` newer ones. Of `single` dropped steps of an attempt it is known what each
    adds to its slice, of older ones what those of a slice add together: a resume to one of these
    counts all of its slice as redone.
    """

    held: int = 16_384
    more: int = 4096
    incomplete: int = 32_768
    single: int = 65_536


class _Cut(NamedTuple):
    """How many of the steps held go, by attempt, and where their slices end (Unix seconds)."""

    counts: Mapping[int, int]
    before_s: float


def attempt_steps(job: LiveJob) -> dict[int, AttemptSteps]:
    """What SLIs are computed from, by attempt, in the order of the attempts."""
    return {
        attempt.number: AttemptSteps(
            step_facts(attempt, lost),
            usual_seconds(attempt),
            attempt.step_history.dropped,
            attempt.step_history.held_from,
            lost,
        )
        for attempt, lost in job.ordered()
        if len(attempt.step_history)
    }


def close_old(
    job: LiveJob,
    running: Sequence[RunningSlices],
    attempts: Mapping[int, AttemptSteps],
    limits: Limits,
) -> None:
    """Let old steps of `job` go, if there are enough.

    `attempts` are those of which `running` accepted the slices; all of these are stored.
    """
    held = sum(len(each.steps.end_s) for each in attempts.values())
    if held < limits.held + limits.more:
        return
    closed = max(each.closed_before_s for each in running)
    clipped = {number: _not_before(closed, each) for number, each in attempts.items()}
    cut = _cut(job, clipped, limits)
    _close(job, running, attempts, cut, limits.single)


def close_stored(
    job: LiveJob,
    running: Sequence[RunningSlices],
    attempts: Mapping[int, AttemptSteps],
    limits: Limits,
) -> None:
    """Let steps of a job that was read back go whose slices are coarse: they were closed before."""
    before = max(each.line.coarse_until for each in running)
    counts = {number: _ended_before(before, each) for number, each in attempts.items()}
    known = {number: count for number, count in counts.items() if count}
    _close(job, running, attempts, _Cut(known, before), limits.single)


def _ended_before(moment_s: float, attempt: AttemptSteps) -> int:
    """How many of the steps, from the first one on, ended before a moment."""
    later = attempt.steps.end_s >= moment_s
    return int(np.argmax(later)) if later.any() else len(later)


def _close(
    job: LiveJob,
    running: Sequence[RunningSlices],
    attempts: Mapping[int, AttemptSteps],
    cut: _Cut,
    single: int,
) -> None:
    if not cut.counts:
        return
    for each in running:
        closed = {n: _not_before(each.closed_before_s, steps) for n, steps in attempts.items()}
        _keep_redoable(each, closed, cut.counts)
    for number, count in cut.counts.items():
        drop_steps(job.attempts[number], attempts[number].steps, count, cut.before_s)
    _join_oldest(job, running, single)
    for each in running:
        each.close(cut.counts, cut.before_s)


def _not_before(closed_before_s: float, attempt: AttemptSteps) -> AttemptSteps:
    """The same; steps that end in a closed slice do so at its end."""
    ends = np.maximum(attempt.steps.end_s, closed_before_s)
    return attempt._replace(steps=attempt.steps._replace(end_s=ends))


def _cut(job: LiveJob, attempts: Mapping[int, AttemptSteps], limits: Limits) -> _Cut:
    """Where to cut: behind the newest step whose slice, and all before it, hold no later step.

    Ends 3, 12, 14, 11, 25 in slices 0, 1, 1, 1, 2: behind the first, or behind the fourth. Where a
    clock was set back there may be no such place; once more than `incomplete` steps may go any
    place will do, and steps that end in closed slices count in the first open one.
    """
    ends = np.concatenate([each.steps.end_s for each in attempts.values()])
    most = min(len(ends) - limits.held, _may_go(job, attempts, len(ends) - limits.incomplete))
    if most <= 0:
        return _Cut({}, -math.inf)
    slices = ends // SLICE_SECONDS
    last = np.maximum.accumulate(slices)[:most]
    first = np.minimum.accumulate(slices[::-1])[::-1][1 : most + 1]
    clean = np.flatnonzero(last < first)
    if len(clean):
        count, newest = int(clean[-1]) + 1, float(last[clean[-1]])
    elif most > limits.incomplete:
        count, newest = most, float(slices[most - 1])
    else:
        return _Cut({}, -math.inf)
    return _Cut(_by_attempt(attempts, count), (newest + 1) * SLICE_SECONDS)


def _may_go(job: LiveJob, attempts: Mapping[int, AttemptSteps], too_old: int) -> int:
    """How many steps may go, from the first one held on: settled ones that all ranks reported.

    Those before `too_old` may go whoever did not report.
    """
    before = 0
    for number, known in attempts.items():
        attempt, count = job.attempts[number], len(known.steps.end_s)
        awaited = attempt.tracker(SettledSteps).awaited
        settled = 0 if awaited is None else min(count, awaited - known.first_step)
        short = known.steps.observed[:settled] < known.steps.world
        short[: max(0, too_old - before)] = False
        complete = int(np.argmax(short)) if short.any() else settled
        before += complete
        if complete < count or len(attempt.step_history.rows) > count:
            break
    return before


def _by_attempt(attempts: Mapping[int, AttemptSteps], count: int) -> dict[int, int]:
    """How many of the first `count` steps are of each attempt, where any are."""
    found = {}
    for number, each in attempts.items():
        part = min(count, len(each.steps.end_s))
        count -= part
        if part:
            found[number] = part
    return found


def _keep_redoable(
    running: RunningSlices, attempts: Mapping[int, AttemptSteps], counts: Mapping[int, int]
) -> None:
    """Keep what the first steps add while they count, and when they are redone; nothing where that
    is the same."""
    sli, line = running.sli, running.line
    found = {number: _redoable(sli, attempts[number], count) for number, count in counts.items()}
    if not any((rows["kept"] != rows["redone"]).any() for rows in found.values()):
        return
    for number, rows in found.items():
        rows["start_s"] = line.starts(rows["start_s"])
        known = attempts[number].dropped
        if known is not None:
            before = known.redoable.get(sli.name, rows[:0])
            known.redoable[sli.name] = np.concatenate([before, rows])


def _redoable(sli: Sli, attempt: AttemptSteps, count: int) -> Rows:
    facts = attempt.steps
    rows = np.zeros(count, dtype=REDOABLE)
    rows["first_step"] = attempt.first_step + np.arange(count)
    rows["start_s"] = facts.end_s[:count]
    for name, lost in (("kept", False), ("redone", True)):
        steps = facts._replace(lost=np.full(len(facts.lost), lost))
        good, _ = sli.good_and_total(attempt._replace(steps=steps))
        rows[name] = good[:count]
    return rows


def _join_oldest(job: LiveJob, running: Sequence[RunningSlices], single: int) -> None:
    """Join what the steps of a slice add, but of the newest `single` dropped steps."""
    for attempt in job.attempts.values():
        redoable = attempt.step_history.dropped.redoable
        for each in running:
            rows = redoable.get(each.sli.name)
            if rows is not None and len(rows) > single:
                old, newest = rows[: len(rows) - single], rows[len(rows) - single :]
                starts = each.line.starts(old["start_s"])
                redoable[each.sli.name] = np.concatenate([joined(old, starts), newest])


def joined(rows: Rows, starts: Integers) -> Rows:
    """Rows of `REDOABLE` that follow each other in one slice, which starts at `starts`, as one.

    Starts 0, 0, 10 -> rows 0 and 1 together, row 2.
    """
    begins = np.flatnonzero(np.append(True, starts[1:] != starts[:-1]))
    found = rows[begins]
    found["start_s"] = starts[begins]
    for name in ("kept", "redone"):
        sums: Vector = np.add.reduceat(rows[name], begins)
        found[name] = sums
    return found
