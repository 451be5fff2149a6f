"""Ranks as JSON objects: the first ranks, and the ranks that explain a job's time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np

from stepwatch.collector.analysis.device_use import host_leads
from stepwatch.collector.analysis.newest_steps import newest_window
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.evidence.step_window import IDLE, WORK
from stepwatch.collector.state.step_clock import rank_seconds_on, step_timing
from stepwatch.collector.web.schema.job import Rank, RankByCost, Standing
from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import PHASE_NAMES, ProcessState

MAX_RANKS = 1024
"""Maximum number of ranks per answer."""
SLOWEST = 5
"""Ranks with the longest self time that an answer names: a node with eight devices fits mostly."""
MOST_ABSENT = 8
"""Ranks whose process is stopped or gone that an answer names besides."""
_ABSENT = frozenset({ProcessState.STOPPED, ProcessState.ZOMBIE, ProcessState.GONE})


def rank_summaries(attempt: Attempt) -> list[Rank]:
    """Return the first ranks, timed on the current step clock."""
    clock = step_timing(attempt).clock
    seconds, leads = rank_seconds_on(attempt, clock), host_leads(newest_window(attempt))
    return [
        rank_summary(attempt, rank, seconds, float(leads[rank]) if rank < len(leads) else math.nan)
        for rank in range(min(attempt.world, MAX_RANKS))
    ]


def rank_summary(
    attempt: Attempt, rank: int, seconds: Mapping[str, Vector], host_lead: float
) -> Rank:
    """Return one rank: its location, and its time shares per phase and wait.

    `seconds` maps a step column to cumulative seconds (world,); `host_lead` is NaN if unknown.
    """
    view, stage = attempt.ranks.views.get(rank), attempt.stages[rank]
    sums = {name: float(sums[rank]) for name, sums in seconds.items()}
    total, idle = sums.get("duration", 0.0), sum(sums.get(name, 0.0) for name in IDLE)

    def share(name: str) -> float | None:
        return sums[name] / total if total > 0 else None

    return {
        "rank": rank,
        "node": view.node if view else None,
        "stage": int(stage) if view and stage >= 0 else None,
        "process_state": int(view.row["process_state"]) if view else None,
        "ended": attempt.lifecycle.ended[rank].name.lower()
        if rank in attempt.lifecycle.ended
        else None,
        "phase": _phase_name(int(view.row["phase"])) if view else None,
        "phase_share": {name: share(name) for name in PHASE_NAMES},
        "collective_wait_share": share("collective"),
        "pipeline_wait_share": share("pipeline_wait"),
        "device_idle_share": idle / total if IDLE[0] in sums and total > 0 else None,
        "host_lead_seconds": None if math.isnan(host_lead) else host_lead,
    }


def _phase_name(number: int) -> str | None:
    return PHASE_NAMES[number] if number < len(PHASE_NAMES) else None


def ranks_by_cost(attempt: Attempt) -> list[RankByCost]:
    """Return the ranks with the longest self time in the newest steps, the median, the fastest.

    Ranks whose process is stopped or gone come first: a rank without steps has no self time.
    """
    self_seconds = _self_seconds(attempt)
    chosen = _standings(attempt, self_seconds)
    clock = step_timing(attempt).clock
    seconds = rank_seconds_on(attempt, clock)
    return [
        {
            **rank_summary(attempt, rank, seconds, math.nan),
            "standing": standing,
            "self_seconds": _known(self_seconds, rank),
        }
        for rank, standing in chosen.items()
    ]


def _self_seconds(attempt: Attempt) -> Vector:
    """Return each rank's mean self time a step over the newest steps, NaN while unknown."""
    window = newest_window(attempt)
    if not len(window.steps):
        return np.full(attempt.world, np.nan)
    work = np.sum([window.planes[name] for name in WORK], axis=0).astype(np.float64)
    with warnings.catch_warnings():
        # A rank without any known step is unknown, which NaN says.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(work, axis=0))


def _standings(attempt: Attempt, self_seconds: Vector) -> dict[int, Standing]:
    """Return the chosen ranks in order: absent, slowest, median, fastest; each once."""
    views = attempt.ranks.views
    absent = [rank for rank in sorted(views) if _state(attempt, rank) in _ABSENT][:MOST_ABSENT]
    known = np.flatnonzero(~np.isnan(self_seconds))
    ordered = known[np.argsort(-self_seconds[known], kind="stable")].tolist()
    chosen: dict[int, Standing] = {}
    if ordered:
        chosen[ordered[0]] = "slowest"
        chosen.setdefault(ordered[len(ordered) // 2], "median")
        chosen.setdefault(ordered[-1], "fastest")
    for rank in ordered[:SLOWEST]:
        chosen.setdefault(rank, "slowest")
    by_cost = {rank: chosen[rank] for rank in ordered if rank in chosen and rank not in absent}
    return {**dict.fromkeys(absent, "absent"), **by_cost}


def _state(attempt: Attempt, rank: int) -> int:
    return int(attempt.ranks.views[rank].row["process_state"])


def _known(values: Vector, rank: int) -> float | None:
    value = float(values[rank]) if rank < len(values) else math.nan
    return None if math.isnan(value) else round(value, 6)
