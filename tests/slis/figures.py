"""Expected SLIs, computed from the trainer's own history and result. Pure.

No input is stepwatch's: step times are those that rank 0 measured around its own steps, checkpoints
and resumes those that the trainer logged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Vector

RANKS = 4
WARM_UP = 3
DEVICE_HOUR = 2.5
"""Price in the collector's rate card."""


class RunRecord(NamedTuple):
    """A run's files: steps (wall and own seconds), checkpoints, resumes, and its result.

    `steps` are the surviving ones. `fault` is the range of steps with the fault; the launcher
    started at `launched_s`, Unix seconds.
    """

    steps: Sequence[Mapping[str, float]]
    checkpoints: Sequence[Mapping[str, Any]]
    resumes: Sequence[Mapping[str, float]]
    result: Mapping[str, Any]
    tokens_per_step: int
    fault: range
    launched_s: float

    @property
    def seconds(self) -> Vector:
        """Seconds of each step, without checkpoints between steps."""
        return np.array([step["seconds"] for step in self.steps])

    @property
    def usual_seconds(self) -> float:
        """Seconds of the median step before the fault."""
        return float(median(self.seconds[WARM_UP : self.fault.start]))

    @property
    def extra_seconds(self) -> float:
        """Seconds that the steps with the fault took longer than usual, all together."""
        return float(np.sum(self.seconds[self.fault.start : self.fault.stop] - self.usual_seconds))

    @property
    def elapsed_seconds(self) -> float:
        """Seconds from the beginning of the first step to the end of the last."""
        first, last = self.steps[0], self.steps[-1]
        return last["wall_seconds"] - first["wall_seconds"] + first["seconds"]


def read(folder: Path, tokens_per_step: int, fault: range, launched_s: float) -> RunRecord:
    """Read the trainer's files: `history.jsonl` of its run, and `result.json` if it was written."""
    text = (folder / "run" / "history.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    result = folder / "result.json"
    return RunRecord(
        [line for line in lines if "loss" in line],
        [line for line in lines if "stall_seconds" in line],
        [line for line in lines if "from_step" in line],
        json.loads(result.read_text()) if result.is_file() else {},
        tokens_per_step,
        fault,
        launched_s,
    )


Figure = Callable[[RunRecord], float]


def percentile(percent: float) -> Figure:
    """A quantile of the steps after the first."""
    return lambda run: float(np.percentile(run.seconds[1:], percent))


def spread(run: RunRecord) -> float:
    """p95 over p50."""
    return percentile(95)(run) / percentile(50)(run)


def usual_share(run: RunRecord) -> float:
    """Return the time share of steps no longer than twice the usual one."""
    seconds = run.seconds[WARM_UP:]
    return float(seconds[seconds <= 2 * run.usual_seconds].sum() / seconds.sum())


def throughput(run: RunRecord) -> float:
    """Tokens of the steps after the first over the time they took."""
    return (
        run.tokens_per_step * (len(run.steps) - 1) / (run.elapsed_seconds - run.steps[0]["seconds"])
    )


def share_of_all_ranks(run: RunRecord) -> float:
    """The share of device-time that the fault took from all ranks."""
    return run.extra_seconds / run.elapsed_seconds


def share_of_one_rank(run: RunRecord) -> float:
    """Return the share of device-time that the fault took from one rank."""
    return run.extra_seconds / run.elapsed_seconds / RANKS


def share_of_other_ranks(run: RunRecord) -> float:
    """Return the share of device-time in which the other ranks waited for one."""
    return run.extra_seconds / run.elapsed_seconds * (RANKS - 1) / RANKS


def stall_share(run: RunRecord) -> float:
    """The share of device-time in saves, all ranks as long as rank 0."""
    return float(
        sum(checkpoint["stall_seconds"] for checkpoint in run.checkpoints) / run.elapsed_seconds
    )


def single_rank_stall_share(run: RunRecord) -> float:
    """Return the share of device-time in saves that are slow on rank 0 alone: its peers wait
    outside."""
    return stall_share(run) / RANKS


def durable_seconds(run: RunRecord) -> float:
    """Mean seconds until a checkpoint was on storage."""
    durations = [
        checkpoint["durable_seconds"]
        for checkpoint in run.checkpoints
        if checkpoint["durable_seconds"]
    ]
    return float(sum(durations) / len(durations))


def verified_share(run: RunRecord) -> float:
    """Checkpoints that verified, of all."""
    return sum(bool(checkpoint["verified"]) for checkpoint in run.checkpoints) / len(
        run.checkpoints
    )


def lost_steps(run: RunRecord) -> float:
    """Steps that had to be done again."""
    return float(sum(resume["steps_lost"] for resume in run.resumes))


def per_device_days(run: RunRecord) -> float:
    """Interruptions per 1,000 days of a device, from the first step on."""
    return len(run.resumes) / (RANKS * run.elapsed_seconds / 86_400) * 1000


def idle_seconds(run: RunRecord) -> float:
    """Mean seconds without progress before a resume."""
    return sum(resume["seconds"] for resume in run.resumes) / len(run.resumes)


def completion_seconds(run: RunRecord) -> float:
    """Seconds from the launch to the end of the last step."""
    return run.steps[-1]["wall_seconds"] - run.launched_s


def verified_age_seconds(run: RunRecord) -> float:
    """Seconds from the newest checkpoint that verified to the end of the last step."""
    newest = max(
        int(checkpoint["step"]) for checkpoint in run.checkpoints if checkpoint["verified"]
    )
    return run.steps[-1]["wall_seconds"] - run.steps[newest - 1]["wall_seconds"]


def kept_share(run: RunRecord) -> float:
    """Return the share of surviving steps in the time of all steps and pauses between attempts;
    repeated steps count as long as usual."""
    repeated_seconds = lost_steps(run) * run.usual_seconds
    stood = sum(resume["seconds"] for resume in run.resumes)
    return float(run.seconds.sum() / (run.seconds.sum() + repeated_seconds + stood))


def cost(run: RunRecord) -> float:
    """Money for a million tokens, of the time from the first step on."""
    money = RANKS * run.elapsed_seconds / 3600 * DEVICE_HOUR
    return money / (run.tokens_per_step * len(run.steps)) * 1e6


def bubble_over_ideal(run: RunRecord) -> float:
    """Idle share of the pipeline as the trainer's schedule measured it, over its ideal."""
    bubble = run.result["bubble"]
    return float(bubble["measured"] - bubble["ideal"])


def constant(value: float) -> Figure:
    """Return a figure that the case states."""
    return lambda run: value
