"""Compares what was recorded of a run with what its ranks know: right, unknown, or wrong.

Unknown is honest: stepwatch shows no number, or counts the time as *other*. A number or a name
that is not so is wrong, and so is silence about a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.records import Kind, Op
from tests.trainers.programs.plan import SLOW_RANK
from tests.trainers.recorded import Recorded
from tests.trainers.truth import Pauses, RankTruth, Truth

RIGHT, UNKNOWN, WRONG = "yes", "unknown", "NO"
_ORDER = (RIGHT, UNKNOWN, WRONG)
_NEAR = 0.25
"""Share by which recorded and true seconds may differ: a program sees its own calls only."""
QUIET_SECONDS = 120.0
_MOST = 0.9
"""Share of steps in which a phase or collective must be seen."""


class Mark(NamedTuple):
    """A word for the table, and why it is not better."""

    word: str
    why: str = ""


def worst(marks: Iterable[Mark]) -> Mark:
    """The worst of several; right if there are none."""
    return max(marks, key=lambda mark: _ORDER.index(mark.word), default=Mark(RIGHT))


def steps(truth: Truth, seen: Recorded) -> Mark:
    """Every rank's steps, each once, numbered from 0, and the job finished."""
    for rank, known in sorted(truth.items()):
        numbers = seen.of(rank, Kind.STEP)["step"].tolist()
        if numbers != list(range(known.steps)):
            return Mark(WRONG, f"rank {rank}: {len(numbers)} of {known.steps} steps recorded")
    more = sorted(set(seen.rows) - set(truth) - {-1})
    if more:
        return Mark(WRONG, f"ranks {more} do not exist")
    if seen.job.get("state") != "finished":
        return Mark(WRONG, f"the job is {seen.job.get('state')}")
    return Mark(RIGHT)


def phases(truth: Truth, seen: Recorded) -> Mark:
    """Forward and data wait take what they took; backward and optimizer are seen in each step."""
    marks = []
    for rank, known in truth.items():
        for name, seconds in (("forward", known.forward_seconds), ("data", known.data_seconds)):
            recorded, other = seen.seconds(rank, name), seen.seconds(rank, "other")
            marks.append(_booked(f"rank {rank} {name}", seconds, recorded, other))
        for name in ("backward", "optimizer"):
            marks.append(_in_each_step(f"rank {rank} {name}", seen.of(rank, Kind.STEP), name))
    return worst(marks)


def evaluation(truth: Truth, seen: Recorded) -> Mark:
    """Time in evaluations, as far as the trainer made any."""
    return _pauses(truth, seen, "eval", lambda known: known.eval)


def checkpoints(truth: Truth, seen: Recorded) -> Mark:
    """Time in saves, and one checkpoint for each save."""
    saves = max((len(known.save) for known in truth.values()), default=0)
    time = _pauses(truth, seen, "checkpoint", lambda known: known.save)
    listed = len(seen.job.get("checkpoints") or [])
    if time.word == WRONG or not saves:
        return time
    if listed == saves:
        return time
    if listed:
        return Mark(WRONG, f"{listed} checkpoints of {saves} listed")
    return Mark(UNKNOWN, time.why or f"{saves} saves counted as time, none listed")


def losses(truth: Truth, seen: Recorded) -> Mark:
    """Each recorded loss is the step's mean or its last microbatch's; some are recorded."""
    known_to_ranks = any(known.losses and known.losses[0] for known in truth.values())
    wrong, found = [], 0
    for rank, known in truth.items():
        rows = seen.of(rank, Kind.STEP)
        for row in rows[~np.isnan(rows["loss"])]:
            found += 1
            if not _is_loss(float(row["loss"]), int(row["step"]), truth, known):
                wrong.append(f"rank {rank} step {row['step']}: {row['loss']:.4f}")
    if wrong:
        return Mark(WRONG, f"{len(wrong)} wrong, {wrong[0]}")
    return Mark(RIGHT) if found or not known_to_ranks else Mark(UNKNOWN, "none recorded")


def tokens(truth: Truth, seen: Recorded) -> Mark:
    """Tokens of each step; unknown must not be shown as zero a second."""
    recorded = {rank: seen.of(rank, Kind.STEP)["tokens"] for rank in truth}
    if not any((each > 0).any() for each in recorded.values()):
        if seen.job.get("tokens_per_second") is not None:
            return Mark(WRONG, f"shown as {seen.job['tokens_per_second']:g} tokens/s")
        return Mark(UNKNOWN, "none recorded")
    for rank, known in truth.items():
        if recorded[rank].tolist() != known.tokens:
            total, true = int(recorded[rank].sum()), sum(known.tokens)
            return Mark(WRONG, f"rank {rank}: {total} of {true} tokens")
    return Mark(RIGHT)


def collectives(truth: Truth, seen: Recorded) -> Mark:
    """The operations that each step calls, with at least the bytes that they reduce."""
    marks = []
    for rank, known in truth.items():
        if not known.ops:
            continue
        rows = seen.of(rank, Kind.COLLECTIVE)
        wanted = np.isin(rows["op"], [Op[name.upper()] for name in known.ops])
        steps_with = set(rows["step"][wanted].tolist())
        if len(steps_with) < _MOST * known.steps:
            why = f"rank {rank}: {'/'.join(known.ops)} in {len(steps_with)} of {known.steps} steps"
            marks.append(Mark(WRONG if len(steps_with) else UNKNOWN, why))
        elif known.step_bytes * known.steps > int(rows["bytes"][wanted].sum()):
            marks.append(Mark(WRONG, f"rank {rank}: fewer bytes than its gradients have"))
    return worst(marks)


def quiet(incidents: list[dict[str, Any]], seconds: float) -> Mark:
    """A healthy run of two minutes or more has no incident; a shorter one shows nothing."""
    if incidents:
        return Mark(WRONG, "; ".join(map(_shown, incidents)))
    return Mark(RIGHT) if seconds >= QUIET_SECONDS else Mark(UNKNOWN, f"only {seconds:.0f} s")


def fault(name: str, rank: int, world: int, incidents: list[dict[str, Any]]) -> Mark:
    """One incident that names the slow rank, and forward or data; *other* claims nothing."""
    if not incidents:
        return Mark(WRONG, "no incident")
    first, why = incidents[0], "; ".join(map(_shown, incidents))
    if len(incidents) > 1 or first["kind"] not in _KINDS[name == SLOW_RANK]:
        return Mark(WRONG, why)
    if first["rank"] not in ({rank} if world > 1 else {rank, -1}):
        return Mark(WRONG, why)
    if first["phase"] == ("forward" if name == SLOW_RANK else "data"):
        return Mark(RIGHT)
    return Mark(UNKNOWN if first["phase"] == "other" else WRONG, why)


_KINDS = {
    True: ("straggler", "pipeline-bubble"),
    False: ("straggler", "data-stall"),
}


def _shown(incident: dict[str, Any]) -> str:
    return " ".join(str(incident[name]) for name in ("kind", "rank", "phase", "cause"))


def _booked(what: str, true: float, recorded: float, other: float) -> Mark:
    """Seconds of a phase that took `true`; what is missing may lie in *other*."""
    missing = true * (1 - _NEAR) - recorded
    if missing <= 0:
        return Mark(RIGHT)
    why = f"{what}: {recorded:.1f} s of {true:.1f} s"
    return Mark(UNKNOWN if other >= missing else WRONG, why)


def _in_each_step(what: str, rows: Any, name: str) -> Mark:
    seen = int((rows[f"{name}_ns"] > 0).sum())
    if seen >= _MOST * len(rows):
        return Mark(RIGHT)
    return Mark(UNKNOWN if not seen else WRONG, f"{what} in {seen} of {len(rows)} steps")


def _pauses(
    truth: Truth,
    seen: Recorded,
    phase: str,
    pauses: Callable[[RankTruth], Pauses],
) -> Mark:
    marks = []
    for rank, known in truth.items():
        true, recorded = known.seconds_between_steps(pauses(known)), seen.seconds(rank, phase)
        marks.append(_booked(f"rank {rank} {phase}", true, recorded, seen.seconds(rank, "other")))
        if recorded > true * (1 + _NEAR) + 1.0:
            marks.append(Mark(WRONG, f"rank {rank} {phase}: {recorded:.1f} s of {true:.1f} s"))
    return worst(marks)


def _is_loss(value: float, step: int, truth: Truth, known: RankTruth) -> bool:
    """Whether a rank's loss is its own or, as some frameworks log it, the ranks' mean."""
    if step >= known.steps:
        return False
    means = [
        np.mean([float.fromhex(text) for text in each.losses[step]])
        for each in truth.values()
        if each.losses[step]
    ]
    own = [float.fromhex(text) for text in known.losses[step]]
    candidates = [*own[-1:], float(np.mean(own or [math.nan])), float(np.mean(means))]
    return any(math.isclose(value, each, rel_tol=1e-4) for each in candidates)
