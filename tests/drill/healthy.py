"""Training without a fault, with checkpoints, evaluations and restarts: no notification may
arrive."""

from __future__ import annotations

import time

from .chain.pager import FIRING
from .chain.servers import DrillError
from .chain.site import Site
from .faults import RANKS
from .scoreboard import Healthy
from .trial import Tell

_JOB = "drill-healthy"
_PACE = tuple(f"slow-compute:rank={rank},step=0,seconds=0.5" for rank in range(RANKS))
"""Each rank sleeps as long as its peers and longer than its small model computes, so that an hour
costs a shared machine little. A step with four microbatches takes 2.5 s, and so does an evaluation
batch.
"""
_EVALUATIONS = ("--eval-every", "10", "--eval-unmarked-every", "2")
"""An evaluation every half minute or less often; every second one is unmarked."""
_BATCHES = (2, 4, 6)
"""Batches per evaluation, by attempt in turn: 5, 10 and 15 s."""
_PART_SECONDS = 150.0
_LAST_SECONDS = 45.0
"""Wait after the end for late notifications."""


def train_healthy(site: Site, seconds: float, tell: Tell) -> Healthy:
    """Train for `seconds` with checkpoints and evaluations, and preempt and restart now and
    then."""
    earlier = len(site.notifications())
    began = time.time()
    turn = 0
    problem = ""
    while (remaining_s := began + seconds - time.time()) > 0:
        batches = _BATCHES[turn % len(_BATCHES)]
        flags = ("--checkpoint-every", "20", *_EVALUATIONS, "--eval-batches", str(batches))
        try:
            attempt = site.training.start(_JOB, _PACE, flags)
            site.wait_step(_JOB, 1, attempt)
            tell(f"attempt {attempt} trains, {max(0.0, remaining_s) / 60:.0f} minutes are left")
            time.sleep(max(1.0, min(_PART_SECONDS, began + seconds - time.time())))
            site.training.preempt()
        except DrillError as error:
            site.training.kill()
            problem = str(error)
            tell(problem)
            break
        turn = attempt + 1
    time.sleep(_LAST_SECONDS)
    notifications = site.notifications()[earlier:]
    arrived = tuple(
        f"{notification.alert} of {notification.job} ({notification.receiver})"
        for notification in notifications
        if notification.status == FIRING
    )
    checkpoints = len(site.job(_JOB).get("checkpoints") or ())
    evaluations = site.training.evaluations(_JOB)
    unmarked = [evaluation["seconds"] for evaluation in evaluations if not evaluation["marked"]]
    return Healthy(
        seconds=time.time() - began,
        restarts=max(0, turn - 1),
        checkpoints=checkpoints,
        evaluations=len(evaluations),
        unmarked=len(unmarked),
        longest_unmarked_seconds=max(unmarked, default=0.0),
        notifications=arrived,
        problem=problem,
    )
