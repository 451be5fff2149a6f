"""What a run tells when it ends: the JSON result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from .checkpoint.saver import Attempt
from .history import History, StepLine


def _percentiles(seconds: Sequence[float]) -> dict[str, float | None]:
    if not seconds:
        return {"p50": None, "p95": None, "p99": None}
    values = np.percentile(np.asarray(seconds), [50, 95, 99])
    return dict(zip(("p50", "p95", "p99"), (round(float(v), 6) for v in values), strict=True))


def warm_steps(lines: Sequence[StepLine]) -> Sequence[StepLine]:
    """The steps without this attempt's first, which compiles, allocates and connects."""
    return lines[1:] if len(lines) > 1 else lines


def tokens_per_second(lines: Sequence[StepLine], tokens_per_step: int) -> float | None:
    """Tokens of all ranks over the time that the warm steps took, stalls between them included."""
    warm = warm_steps(lines)
    seconds = sum(line.seconds for line in warm)
    return round(tokens_per_step * len(warm) / seconds, 3) if seconds > 0 else None


def checkpoint_rows(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """One row per save: step, whether verified, stall and durable seconds, bytes, failure."""
    return [asdict(attempt) for attempt in attempts]


def build_result(
    history: History,
    lines: Sequence[StepLine],
    attempts: Sequence[Attempt],
    tokens_per_step: int,
    extra: dict[str, Any],
) -> dict[str, Any]:
    """Assemble the result; `lines` are the steps of this attempt, `history` knows the whole run."""
    losses = [line.loss for line in history.steps]
    return {
        "losses": losses,
        "loss_first": losses[0] if losses else None,
        "loss_last": losses[-1] if losses else None,
        "tokens_per_second": tokens_per_second(lines, tokens_per_step),
        "step_seconds": _percentiles([line.seconds for line in warm_steps(lines)]),
        "checkpoints": checkpoint_rows(attempts),
        "resumes": [asdict(line) for line in history.resumes],
        **extra,
    }
