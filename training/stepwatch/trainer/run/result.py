"""The JSON result that a run writes when it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from stepwatch.hooks.pipeline.schedule_simulator import schedule_bubble
from stepwatch.signals.durable import write_durably
from stepwatch.trainer.integrity import json_bytes

from .history import History, StepLine
from .session import Session
from .utilisation import model_flops_utilisation, peak_of


def _percentiles(seconds: Sequence[float]) -> dict[str, float | None]:
    if not seconds:
        return {"p50": None, "p95": None, "p99": None}
    values = np.percentile(np.asarray(seconds), [50, 95, 99])
    return dict(zip(("p50", "p95", "p99"), (round(float(v), 6) for v in values), strict=True))


def warm_steps(lines: Sequence[StepLine]) -> Sequence[StepLine]:
    """Return the steps without this attempt's first, which compiles, allocates and connects."""
    return lines[1:] if len(lines) > 1 else lines


def tokens_per_second(lines: Sequence[StepLine], tokens_per_step: int) -> float | None:
    """Return all ranks' tokens per second over the warm steps, including stalls between them."""
    warm = warm_steps(lines)
    seconds = sum(line.seconds for line in warm)
    return round(tokens_per_step * len(warm) / seconds, 3) if seconds > 0 else None


def finite_or_none(value: float) -> float | None:
    """Return the number, or None if it is not finite: JSON has no NaN."""
    return value if math.isfinite(value) else None


def run_summary(history: History) -> dict[str, Any]:
    """Return the whole run's losses, checkpoints, evaluations and resumes, over all attempts."""
    losses = [finite_or_none(line.loss) for line in history.steps]
    return {
        "losses": losses,
        "loss_first": losses[0] if losses else None,
        "loss_last": losses[-1] if losses else None,
        "checkpoints": history.checkpoints,
        "evaluations": [asdict(line) for line in history.evaluations],
        "resumes": [asdict(line) for line in history.resumes],
    }


def attempt_speed(lines: Sequence[StepLine], tokens_per_step: int) -> dict[str, Any]:
    """Return this attempt's speed, without its first step: tokens per second and step seconds."""
    return {
        "tokens_per_second": tokens_per_second(lines, tokens_per_step),
        "step_seconds": _percentiles([line.seconds for line in warm_steps(lines)]),
    }


def _bubble(session: Session) -> dict[str, float | None]:
    """Return the pipeline's idle fraction: measured on the host, and ideal for the schedule."""
    busy = session.busy
    sums = torch.tensor([busy.busy_ns, busy.wall_ns], dtype=torch.float64)
    dist.all_reduce(sums, group=session.runtime.control_group)
    if session.schedule is None:
        return {"measured": None, "ideal": 0.0}
    ideal = schedule_bubble(session.schedule)
    measured = 1.0 - float(sums[0] / sums[1]) if sums[1] > 0 else None
    return {
        "measured": None if measured is None else round(measured, 6),
        "ideal": None if ideal is None else round(ideal, 6),
    }


def _samples(session: Session) -> list[int]:
    """Return the number of sequences that each rank has read, by rank."""
    counts = torch.zeros(session.runtime.world, dtype=torch.int64)
    counts[session.runtime.rank] = session.loader.sequences_read
    dist.all_reduce(counts, group=session.runtime.control_group)
    return [int(count) for count in counts]


def _utilisation(session: Session, rate: float | None) -> float | None:
    options = session.options
    return model_flops_utilisation(
        rate,
        session.model.size.flops_per_token(options.model.length),
        session.runtime.world,
        peak_of(session.runtime.device, options.model.precision),
    )


def write_result(session: Session, lines: Sequence[StepLine], *, preempted: bool) -> None:
    """Gather all ranks' figures and write the result on rank 0; every rank calls this.

    Raises:
        OSError: the result cannot be written.
    """
    bubble, samples = _bubble(session), _samples(session)
    options = session.options
    if session.history is None or not options.run.json:
        return
    speed = attempt_speed(lines, options.parallel.batch * options.model.length)
    result = {
        **run_summary(session.history),
        **speed,
        "bubble": bubble,
        "mfu": _utilisation(session, speed["tokens_per_second"]),
        "samples": samples,
        "quarantined_shards": session.data.quarantined_shards,
        "preempted": preempted,
        "mesh": options.parallel.mesh.flag,
        "world": session.runtime.world,
        "first_step": session.first,
    }
    write_durably(Path(options.run.json), json_bytes(result))
