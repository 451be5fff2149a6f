"""Closes old slices: their steps leave the job's histories, whatever its age.

Steps go oldest first. Their contributions to slices are kept in `DroppedSteps.sums`, so a slice
without some steps is still the sum over all steps. If possible, all steps in a slice go together:
then only the newest slices are ever summed again. Per-step data for a later resume is kept in
`DroppedSteps.redoable`, for the oldest steps per slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.collector.slo.slices import RunningSlices, Shares
from stepwatch.collector.slo.waste import CAUSES, add_to_days, entries
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.state.step_facts import drop_steps, pace_rows, step_facts, usual_seconds
from stepwatch.collector.state.trackers.steps.dropped_steps import REDOABLE, SUMS
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
from stepwatch.collector.store.slices import SLICE_SECONDS
from stepwatch.signals.arrays import Integers, Rows, Vector


class Limits(NamedTuple):
    """Limits on the steps of a job, over all attempts, that are held as rows.

    The newest `retained` steps stay: more than an attempt's baseline takes on either clock, as a
    dropped step keeps its verdict. Dropping begins at `more` steps beyond these. A step that a
    rank has not reported stays until there are `incomplete` newer ones. The contribution to the
    slice is known per step for the newest `single` dropped steps of an attempt, and per slice for
    older ones: a resume to an older step counts its whole slice as redone.
    """

    retained: int = 16_384
    more: int = 4096
    incomplete: int = 32_768
    single: int = 65_536


def attempt_steps(job: LiveJob) -> dict[RunKey, AttemptSteps]:
    """Return the input for SLIs by attempt, in attempt order."""
    return {
        key: AttemptSteps(
            step_facts(attempt, lost),
            usual_seconds(attempt),
            attempt.steps.history.dropped,
            attempt.steps.history.held_from,
            lost,
        )
        for key, (attempt, lost) in job.runs().items()
        if len(attempt.steps.history)
    }


def close_old(
    job: LiveJob,
    running: Sequence[RunningSlices],
    attempts: Mapping[RunKey, AttemptSteps],
    limits: Limits,
) -> None:
    """Drop the job's old steps if there are enough.

    `running` has accepted the slices for `attempts`, or none while the job is reloaded.
    """
    held_steps = sum(len(attempt.steps.end_s) for attempt in attempts.values())
    if held_steps < limits.retained + limits.more:
        return
    counts = _cut(job, attempts, limits)
    for slices in running:
        _keep_sums(slices, attempts, counts)
        slices.drop(counts)
    runs = job.runs()
    for number, count in counts.items():
        steps = attempts[number].steps
        step_entries = entries(attempts[number])[:count]
        curves = runs[number][0].steps.history.dropped.curves
        paces = pace_rows(runs[number][0], steps)[:count]
        curves.add(paces, step_entries[:, : len(CAUSES)])
        days = runs[number][0].steps.history.dropped.accounts
        add_to_days(days, steps.end_s[:count], step_entries)
        ends = [np.add(*slices.line.places_of(steps.end_s[:count])).max() for slices in running]
        drop_steps(runs[number][0], steps, count, float(max(ends)))
    if counts:
        _join_oldest(job, running, limits.single)


def _cut(
    job: LiveJob, attempts: Mapping[RunKey, AttemptSteps], limits: Limits
) -> Mapping[RunKey, int]:
    """Return how many steps to drop per attempt, at a boundary between slices.

    Ends 3, 12, 14, 11, 25 in slices 0, 1, 1, 1, 2: behind the first, or behind the fourth. After a
    clock change there may be no boundary. If the droppable steps exceed `incomplete`, any position
    is used: its slice then has steps with only a known sum, and others.
    """
    ends = np.concatenate([attempt.steps.end_s for attempt in attempts.values()])
    most = min(len(ends) - limits.retained, _may_go(job, attempts, len(ends) - limits.incomplete))
    if most <= 0:
        return {}
    slices = ends // SLICE_SECONDS
    last = np.maximum.accumulate(slices)[:most]
    first = np.minimum.accumulate(slices[::-1])[::-1][1 : most + 1]
    clean = np.flatnonzero(last < first)
    if len(clean):
        return _by_attempt(attempts, int(clean[-1]) + 1)
    return _by_attempt(attempts, most) if most > limits.incomplete else {}


def _may_go(job: LiveJob, attempts: Mapping[RunKey, AttemptSteps], too_old: int) -> int:
    """Return how many steps may go, from the first one on: settled and fully reported.

    Steps before `too_old` may go even with missing reports.
    """
    droppable, runs = 0, job.runs()
    for number, facts in attempts.items():
        attempt, count = runs[number][0], len(facts.steps.end_s)
        awaited = attempt.tracker(SettledSteps).awaited
        settled = 0 if awaited is None else min(count, awaited - facts.first_step)
        short = facts.steps.observed[:settled] < facts.steps.expected[:settled]
        short[: max(0, too_old - droppable)] = False
        complete = int(np.argmax(short)) if short.any() else settled
        droppable += complete
        if complete < count or len(attempt.steps.history.rows) > count:
            break
    return droppable


def _by_attempt(attempts: Mapping[RunKey, AttemptSteps], count: int) -> dict[RunKey, int]:
    """Return how many of the first `count` steps are in each attempt, if any."""
    by_attempt = {}
    for number, attempt in attempts.items():
        part = min(count, len(attempt.steps.end_s))
        count -= part
        if part:
            by_attempt[number] = part
    return by_attempt


def _keep_sums(
    running: RunningSlices, attempts: Mapping[RunKey, AttemptSteps], counts: Mapping[RunKey, int]
) -> None:
    """Keep the first steps' contributions to slices.

    Good seconds are kept per step if a redo changes them.
    """
    sli, line = running.sli, running.line
    for number, count in counts.items():
        dropped = attempts[number].dropped
        if dropped is None:
            continue
        rows = _redoable(sli, attempts[number], count)
        rows["start_s"] = line.starts(attempts[number].steps.end_s[:count])
        changes = bool((rows["kept"] != rows["redone"]).any())
        if changes:
            stored = dropped.redoable.get(sli.name, rows[:0])
            dropped.redoable[sli.name] = np.concatenate([stored, rows])
        shares = Shares.from_steps(sli, attempts[number])
        sums = np.zeros(count, dtype=SUMS)
        sums["start_s"] = rows["start_s"]
        sums["good"] = 0.0 if changes else rows["kept"]
        for name in ("total", "observed", "expected"):
            sums[name] = getattr(shares, name)[:count]
        stored_sums = dropped.sums.get(sli.name, sums[:0])
        stored_sums["start_s"] = line.starts(stored_sums["start_s"])  # some are coarser now
        dropped.sums[sli.name] = _by_slice(np.concatenate([stored_sums, sums]))


def _by_slice(sums: Rows) -> Rows:
    """Return the rows of `SUMS` with one row per slice, in time order."""
    starts, where = np.unique(sums["start_s"], return_inverse=True)
    by_slice: Rows = np.zeros(len(starts), dtype=SUMS)
    by_slice["start_s"] = starts
    for name in ("good", "total", "observed", "expected"):
        np.add.at(by_slice[name], where, sums[name])
    return by_slice


def _redoable(sli: Sli, attempt: AttemptSteps, count: int) -> Rows:
    """Return the first steps' rows of `REDOABLE`, without their slices."""
    facts = attempt.steps
    rows = np.zeros(count, dtype=REDOABLE)
    rows["first_step"] = attempt.first_step + np.arange(count)
    for name, lost in (("kept", False), ("redone", True)):
        steps = facts._replace(lost=np.full(len(facts.lost), lost))
        good, _ = sli.good_and_total(attempt._replace(steps=steps))
        rows[name] = good[:count]
    return rows


def _join_oldest(job: LiveJob, running: Sequence[RunningSlices], single: int) -> None:
    """Merge contributions within a slice, except for the newest `single` dropped steps."""
    for attempt, _ in job.runs().values():
        redoable = attempt.steps.history.dropped.redoable
        for slices in running:
            rows = redoable.get(slices.sli.name)
            if rows is not None and len(rows) > single:
                old, newest = rows[: len(rows) - single], rows[len(rows) - single :]
                starts = slices.line.starts(old["start_s"])
                redoable[slices.sli.name] = np.concatenate([joined(old, starts), newest])


def joined(rows: Rows, starts: Integers) -> Rows:
    """Return rows of `REDOABLE` with consecutive rows in one slice merged.

    Slices start at `starts`. Starts 0, 0, 10 -> rows 0 and 1 together, row 2.
    """
    begins = np.flatnonzero(np.append(True, starts[1:] != starts[:-1]))
    joined_rows = rows[begins]
    joined_rows["start_s"] = starts[begins]
    for name in ("kept", "redone"):
        sums: Vector = np.add.reduceat(rows[name], begins)
        joined_rows[name] = sums
    return joined_rows
