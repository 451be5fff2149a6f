"""Compares a run's recording with its ranks' diaries: right, unknown, or wrong.

Unknown is honest: stepwatch shows no number, or counts the time as *other*. A false number or name
is wrong, and so is a missing step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.records import Kind, Op
from tests.trainers.programs.plan import SLOW_RANK
from tests.trainers.recording import Recording
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


def steps(truth: Truth, recording: Recording) -> Mark:
    """Every rank's steps, each once, numbered from 0, and the job finished."""
    for rank, rank_truth in sorted(truth.items()):
        numbers = recording.table(rank, Kind.STEP)["step"].tolist()
        if numbers != list(range(rank_truth.steps)):
            return Mark(WRONG, f"rank {rank}: {len(numbers)} of {rank_truth.steps} steps recorded")
    more = sorted(set(recording.rows) - set(truth) - {-1})
    if more:
        return Mark(WRONG, f"ranks {more} do not exist")
    if recording.job.get("state") != "finished":
        return Mark(WRONG, f"the job is {recording.job.get('state')}")
    return Mark(RIGHT)


def phases(truth: Truth, recording: Recording) -> Mark:
    """Forward and data wait take their true time; each step has backward and optimizer time."""
    marks = []
    for rank, rank_truth in truth.items():
        for name, seconds in (
            ("forward", rank_truth.forward_seconds),
            ("data", rank_truth.data_seconds),
        ):
            recorded, other_seconds = (
                recording.seconds(rank, name),
                recording.seconds(rank, "other"),
            )
            marks.append(_check_seconds(f"rank {rank} {name}", seconds, recorded, other_seconds))
        for name in ("backward", "optimizer"):
            marks.append(
                _check_each_step(f"rank {rank} {name}", recording.table(rank, Kind.STEP), name)
            )
    return worst(marks)


def evaluation(truth: Truth, recording: Recording) -> Mark:
    """Compare the time in evaluations, if the trainer made any."""
    return _pauses(truth, recording, "eval", lambda rank_truth: rank_truth.eval)


def checkpoints(truth: Truth, recording: Recording) -> Mark:
    """Compare the time in saves, and expect one checkpoint per save."""
    saves = max((len(rank_truth.save) for rank_truth in truth.values()), default=0)
    time = _pauses(truth, recording, "checkpoint", lambda rank_truth: rank_truth.save)
    listed = len(recording.job.get("checkpoints") or [])
    if time.word == WRONG or not saves:
        return time
    if listed == saves:
        return time
    if listed:
        return Mark(WRONG, f"{listed} checkpoints of {saves} listed")
    return Mark(UNKNOWN, time.why or f"{saves} saves counted as time, none listed")


def losses(truth: Truth, recording: Recording) -> Mark:
    """Each recorded loss is the step's mean or its last microbatch's; some are recorded."""
    known_to_ranks = any(
        rank_truth.losses and rank_truth.losses[0] for rank_truth in truth.values()
    )
    wrong, count = [], 0
    for rank, rank_truth in truth.items():
        rows = recording.table(rank, Kind.STEP)
        for row in rows[~np.isnan(rows["loss"])]:
            count += 1
            if not _is_loss(float(row["loss"]), int(row["step"]), truth, rank_truth):
                wrong.append(f"rank {rank} step {row['step']}: {row['loss']:.4f}")
    if wrong:
        return Mark(WRONG, f"{len(wrong)} wrong, {wrong[0]}")
    return Mark(RIGHT) if count or not known_to_ranks else Mark(UNKNOWN, "none recorded")


def tokens(truth: Truth, recording: Recording) -> Mark:
    """Tokens of each step; unknown must not be shown as zero a second."""
    recorded = {rank: recording.table(rank, Kind.STEP)["tokens"] for rank in truth}
    if not any((counts > 0).any() for counts in recorded.values()):
        if recording.job.get("tokens_per_second") is not None:
            return Mark(WRONG, f"shown as {recording.job['tokens_per_second']:g} tokens/s")
        return Mark(UNKNOWN, "none recorded")
    for rank, rank_truth in truth.items():
        if recorded[rank].tolist() != rank_truth.tokens:
            total, true = int(recorded[rank].sum()), sum(rank_truth.tokens)
            return Mark(WRONG, f"rank {rank}: {total} of {true} tokens")
    return Mark(RIGHT)


def collectives(truth: Truth, recording: Recording) -> Mark:
    """The operations that each step calls, with at least the bytes that they reduce."""
    marks = []
    for rank, rank_truth in truth.items():
        if not rank_truth.ops:
            continue
        rows = recording.table(rank, Kind.COLLECTIVE)
        wanted = np.isin(rows["op"], [Op[name.upper()] for name in rank_truth.ops])
        steps_with = set(rows["step"][wanted].tolist())
        if len(steps_with) < _MOST * rank_truth.steps:
            names = "/".join(rank_truth.ops)
            why = f"rank {rank}: {names} in {len(steps_with)} of {rank_truth.steps} steps"
            marks.append(Mark(WRONG if len(steps_with) else UNKNOWN, why))
        elif rank_truth.step_bytes * rank_truth.steps > int(rows["bytes"][wanted].sum()):
            marks.append(Mark(WRONG, f"rank {rank}: fewer bytes than its gradients have"))
    return worst(marks)


def quiet(incidents: list[dict[str, Any]], seconds: float) -> Mark:
    """Expect no incident in a healthy run of two minutes or more; a shorter one proves nothing."""
    if incidents:
        return Mark(WRONG, "; ".join(map(_describe, incidents)))
    return Mark(RIGHT) if seconds >= QUIET_SECONDS else Mark(UNKNOWN, f"only {seconds:.0f} s")


def fault(name: str, rank: int, world: int, incidents: list[dict[str, Any]]) -> Mark:
    """Expect one incident that names the slow rank, and forward or data; *other* is unknown."""
    if not incidents:
        return Mark(WRONG, "no incident")
    first, why = incidents[0], "; ".join(map(_describe, incidents))
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


def _describe(incident: dict[str, Any]) -> str:
    return " ".join(str(incident[name]) for name in ("kind", "rank", "phase", "cause"))


def _check_seconds(title: str, true: float, recorded: float, other_seconds: float) -> Mark:
    """Compare the recorded seconds of a phase with `true`; the missing part may be in *other*."""
    missing = true * (1 - _NEAR) - recorded
    if missing <= 0:
        return Mark(RIGHT)
    why = f"{title}: {recorded:.1f} s of {true:.1f} s"
    return Mark(UNKNOWN if other_seconds >= missing else WRONG, why)


def _check_each_step(title: str, rows: Any, name: str) -> Mark:
    steps_marked = int((rows[f"{name}_ns"] > 0).sum())
    if steps_marked >= _MOST * len(rows):
        return Mark(RIGHT)
    return Mark(
        UNKNOWN if not steps_marked else WRONG, f"{title} in {steps_marked} of {len(rows)} steps"
    )


def _pauses(
    truth: Truth,
    recording: Recording,
    phase: str,
    pauses: Callable[[RankTruth], Pauses],
) -> Mark:
    marks = []
    for rank, rank_truth in truth.items():
        true, recorded = (
            rank_truth.seconds_between_steps(pauses(rank_truth)),
            recording.seconds(rank, phase),
        )
        marks.append(
            _check_seconds(f"rank {rank} {phase}", true, recorded, recording.seconds(rank, "other"))
        )
        if recorded > true * (1 + _NEAR) + 1.0:
            marks.append(Mark(WRONG, f"rank {rank} {phase}: {recorded:.1f} s of {true:.1f} s"))
    return worst(marks)


def _is_loss(value: float, step: int, truth: Truth, rank_truth: RankTruth) -> bool:
    """Return whether a rank's loss is its own or, as some frameworks log it, the ranks' mean."""
    if step >= rank_truth.steps:
        return False
    means = [
        np.mean([float.fromhex(text) for text in rank_truth.losses[step]])
        for rank_truth in truth.values()
        if rank_truth.losses[step]
    ]
    rank_losses = [float.fromhex(text) for text in rank_truth.losses[step]]
    candidates = [
        *rank_losses[-1:],
        float(np.mean(rank_losses or [math.nan])),
        float(np.mean(means)),
    ]
    return any(math.isclose(value, candidate, rel_tol=1e-4) for candidate in candidates)
