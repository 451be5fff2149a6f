"""Where a job's ranks run, and which of them can be profiled from which step on."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from stepwatch.collector.job_states import DEGRADED, RUNNING, STALLED
from stepwatch.collector.runtime.evaluation.job_state import job_state
from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store.profiles import Wanted
from stepwatch.collector.store.profiles.requests import EXPIRY_SECONDS
from stepwatch.collector.web import job_view
from stepwatch.collector.web.documents import OLD_SECONDS, encoded
from stepwatch.signals.errors import StepwatchError

LEAD_SECONDS = 15.0
"""Time until the first profiled step: agents learn of a request when they send segments."""
_UNTIL_TRACES_SECONDS = 120.0
"""Time of an expiring request that is kept for packing and sending the traces."""


class RefusedError(StepwatchError):
    """The ranks cannot be profiled now."""


class Asked(NamedTuple):
    """The requested slow rank, its peer (None: the nearest in its stage), steps and author."""

    rank: int
    peer: int | None
    steps: int
    by: str


def _placement(job: LiveJob, verdicts: Verdicts, now: float) -> dict[str, Any]:
    attempt, incidents = job.current, verdicts.open_incidents()
    ranks = range(attempt.world)
    views = [attempt.ranks.views.get(rank) for rank in ranks]
    gone = {rank for rank in ranks if attempt.outcome.is_gone(rank)}
    return {
        "attempt": attempt.number,
        "state": job_state(attempt, incidents, now),
        "step": job_view.job_line(job, verdicts, now)["step"],
        "step_seconds": job_view.pace(job)["recent_step_seconds"],
        "nodes": [view.node if view else None for view in views],
        "stages": [int(attempt.stages[rank]) for rank in ranks],
        "ended": sorted(gone | attempt.lifecycle.ended.keys()),
        "incidents": [[incident.rank, incident.id] for incident in incidents],
    }


PLACEMENT = View("placement", _placement, encoded)
"""The ranks that can be profiled."""


def read_placement(service: Service, job: str) -> dict[str, Any] | None:
    """Return where a job's ranks run; None for an unknown job.

    Raises:
        RefusedError: nothing newer is known of the job.
        sqlalchemy.exc.SQLAlchemyError: another collector evaluates it, and the store is down.
    """
    published = service.answer(job, PLACEMENT)
    if published is None:
        return None
    if abs(service.now() - published.as_of) > OLD_SECONDS:
        raise RefusedError(f"nothing newer is known of {job}: its collector does not answer")
    placement: dict[str, Any] = json.loads(published.value)
    return placement


def choose(job: str, placement: dict[str, Any], asked: Asked, flush_seconds: float) -> Wanted:
    """Return the profile to request: both ranks' nodes, and a first step after every flush.

    `flush_seconds` is the time between flushes that the collector asks of agents.

    Raises:
        RefusedError: the job makes no steps, or a rank has ended or is unknown.
    """
    _check_progress(job, placement)
    node = _node(placement, asked.rank)
    peer = _nearest(placement, asked.rank) if asked.peer is None else asked.peer
    if peer == asked.rank:
        raise RefusedError("a rank cannot be compared with itself: name another peer")
    step_s = placement["step_seconds"]
    lead = 2 + math.ceil((LEAD_SECONDS + 2 * flush_seconds) / step_s)
    if (lead + asked.steps) * step_s > EXPIRY_SECONDS - _UNTIL_TRACES_SECONDS:
        raise RefusedError(f"a step takes {step_s:.0f} s: profile fewer steps, on the rank's node")
    first, attempt = placement["step"] + lead, placement["attempt"]
    ranks = asked.rank, node, peer, _node(placement, peer)
    incidents = [identity for rank, identity in placement["incidents"] if rank == asked.rank]
    return Wanted(job, attempt, *ranks, first, asked.steps, incidents, asked.by)


def _check_progress(job: str, placement: dict[str, Any]) -> None:
    state = placement["state"]
    if state == STALLED:
        raise RefusedError(f"{job} is stalled: `stepwatch diagnose {job}` has the ranks' stacks")
    if state not in (RUNNING, DEGRADED):
        raise RefusedError(f"{job} is {state}: only ranks that make steps can be profiled")
    if placement["step"] is None or not placement["step_seconds"]:
        raise RefusedError(f"{job} has no complete step yet")


def _node(placement: dict[str, Any], rank: int) -> str:
    nodes: list[str | None] = placement["nodes"]
    if rank >= len(nodes):
        raise RefusedError(f"there is no rank {rank}: the job has {len(nodes)} ranks")
    if rank in placement["ended"]:
        raise RefusedError(f"rank {rank} has ended")
    node = nodes[rank]
    if node is None:
        raise RefusedError(f"the node of rank {rank} is not known")
    return node


def _nearest(placement: dict[str, Any], rank: int) -> int:
    """Return the nearest rank in the same stage; one without an open incident comes first."""
    nodes, stages = placement["nodes"], placement["stages"]
    others = [
        other
        for other, stage in enumerate(stages)
        if other != rank and stage == stages[rank]
        if nodes[other] is not None and other not in placement["ended"]
    ]
    if not others:
        raise RefusedError(f"no other rank of rank {rank}'s stage runs: name a peer")
    anomalous = {rank for rank, _ in placement["incidents"]}
    return min(others, key=lambda other: (other in anomalous, abs(other - rank), other))
