"""Closes old slices: the steps in them leave the histories of a job, whatever its age.

Steps go oldest first. What they add to their slices is kept, in `DroppedSteps.sums`, so that a
slice of which some steps are gone is still the sum of all. Where it can be, all steps of a slice go
together: then only the newest ones are ever summed again. What a later resume needs of each is kept
in `DroppedSteps.redoable`; of the oldest it is kept by slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stepwatch.collector.slo.registry import AttemptSteps, Sli
from stepwatch.collector.slo.slices import RunningSlices, Shares
from stepwatch.collector.slo.waste import add_to_days, entries
from stepwatch.collector.state.job import LiveJob, RunKey
from stepwatch.collector.state.step_facts import drop_steps, step_facts, usual_seconds
from stepwatch.collector.state.trackers.steps.dropped_steps import REDOABLE, SUMS
from stepwatch.collector.state.trackers.steps.settled_steps import SettledSteps
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


def attempt_steps(job: LiveJob) -> dict[RunKey, AttemptSteps]:
    """What SLIs are computed from, by attempt, in the order of the attempts."""
    return {
        key: AttemptSteps(
            step_facts(attempt, lost),
            usual_seconds(attempt),
            attempt.step_history.dropped,
            attempt.step_history.held_from,
            lost,
        )
        for key, (attempt, lost) in job.runs().items()
        if len(attempt.step_history)
    }


def close_old(
    job: LiveJob,
    running: Sequence[RunningSlices],
    attempts: Mapping[RunKey, AttemptSteps],
    limits: Limits,
) -> None:
    """Let old steps of `job` go, if there are enough.

    `attempts` are those of which `running` accepted the slices, or none while the job is read back.
    """
    held = sum(len(each.steps.end_s) for each in attempts.values())
    if held < limits.held + limits.more:
        return
    counts = _cut(job, attempts, limits)
    for each in running:
        _keep_sums(each, attempts, counts)
        each.drop(counts)
    runs = job.runs()
    for number, count in counts.items():
        steps = attempts[number].steps
        found = entries(attempts[number])[:count]
        days = runs[number][0].step_history.dropped.accounts
        add_to_days(days, steps.end_s[:count], found)
        ends = [np.add(*each.line.places_of(steps.end_s[:count])).max() for each in running]
        drop_steps(runs[number][0], steps, count, float(max(ends)))
    if counts:
        _join_oldest(job, running, limits.single)


def _cut(
    job: LiveJob, attempts: Mapping[RunKey, AttemptSteps], limits: Limits
) -> Mapping[RunKey, int]:
    """How many steps go: behind the newest one whose slice, and all before it, hold no later step.

    Ends 3, 12, 14, 11, 25 in slices 0, 1, 1, 1, 2: behind the first, or behind the fourth. Where a
    clock was set there may be no such place; once more than `incomplete` steps may go any place
    will do: the slice in which it lies holds steps of which only the sum is known, and others.
    """
    ends = np.concatenate([each.steps.end_s for each in attempts.values()])
    most = min(len(ends) - limits.held, _may_go(job, attempts, len(ends) - limits.incomplete))
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
    """How many steps may go, from the first one held on: settled ones that all ranks reported.

    Those before `too_old` may go whoever did not report.
    """
    before, runs = 0, job.runs()
    for number, known in attempts.items():
        attempt, count = runs[number][0], len(known.steps.end_s)
        awaited = attempt.tracker(SettledSteps).awaited
        settled = 0 if awaited is None else min(count, awaited - known.first_step)
        short = known.steps.observed[:settled] < known.steps.expected[:settled]
        short[: max(0, too_old - before)] = False
        complete = int(np.argmax(short)) if short.any() else settled
        before += complete
        if complete < count or len(attempt.step_history.rows) > count:
            break
    return before


def _by_attempt(attempts: Mapping[RunKey, AttemptSteps], count: int) -> dict[RunKey, int]:
    """How many of the first `count` steps are of each attempt, where any are."""
    found = {}
    for number, each in attempts.items():
        part = min(count, len(each.steps.end_s))
        count -= part
        if part:
            found[number] = part
    return found


def _keep_sums(
    running: RunningSlices, attempts: Mapping[RunKey, AttemptSteps], counts: Mapping[RunKey, int]
) -> None:
    """Keep what the first steps add to their slices; good seconds of each step where they are
    others once it is redone."""
    sli, line = running.sli, running.line
    for number, count in counts.items():
        dropped = attempts[number].dropped
        if dropped is None:
            continue
        rows = _redoable(sli, attempts[number], count)
        rows["start_s"] = line.starts(attempts[number].steps.end_s[:count])
        changes = bool((rows["kept"] != rows["redone"]).any())
        if changes:
            before = dropped.redoable.get(sli.name, rows[:0])
            dropped.redoable[sli.name] = np.concatenate([before, rows])
        shares = Shares.of(sli, attempts[number])
        sums = np.zeros(count, dtype=SUMS)
        sums["start_s"] = rows["start_s"]
        sums["good"] = 0.0 if changes else rows["kept"]
        for name in ("total", "observed", "expected"):
            sums[name] = getattr(shares, name)[:count]
        known = dropped.sums.get(sli.name, sums[:0])
        known["start_s"] = line.starts(known["start_s"])  # some are coarser by now
        dropped.sums[sli.name] = _by_slice(np.concatenate([known, sums]))


def _by_slice(sums: Rows) -> Rows:
    """Rows of `SUMS`, those of a slice as one, in the order of time."""
    starts, where = np.unique(sums["start_s"], return_inverse=True)
    found: Rows = np.zeros(len(starts), dtype=SUMS)
    found["start_s"] = starts
    for name in ("good", "total", "observed", "expected"):
        np.add.at(found[name], where, sums[name])
    return found


def _redoable(sli: Sli, attempt: AttemptSteps, count: int) -> Rows:
    """Rows of `REDOABLE` of the first steps, without their slices."""
    facts = attempt.steps
    rows = np.zeros(count, dtype=REDOABLE)
    rows["first_step"] = attempt.first_step + np.arange(count)
    for name, lost in (("kept", False), ("redone", True)):
        steps = facts._replace(lost=np.full(len(facts.lost), lost))
        good, _ = sli.good_and_total(attempt._replace(steps=steps))
        rows[name] = good[:count]
    return rows


def _join_oldest(job: LiveJob, running: Sequence[RunningSlices], single: int) -> None:
    """Join what the steps of a slice add, but of the newest `single` dropped steps."""
    for attempt, _ in job.runs().values():
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
