"""Training without a fault: nobody may be notified."""

from __future__ import annotations

import time

from .chain.pager import FIRING
from .chain.site import Site
from .faults import RANKS
from .held import Tell
from .scoreboard import Healthy

_JOB = "drill-healthy"
_PACE = tuple(f"slow-compute:rank={rank},step=0,seconds=0.5" for rank in range(RANKS))
"""Each rank computes for as long as the others, and longer than its little model takes, asleep: an
hour takes little of a machine that others use as well."""
_PART_SECONDS = 150.0
_LAST_SECONDS = 45.0
"""After the end: what is late may still arrive."""


def train_healthy(site: Site, seconds: float, tell: Tell) -> Healthy:
    """Train, with checkpoints, and preempt and restart it now and then, for so many seconds."""
    before = len(site.notified())
    began = time.time()
    restarts = 0
    while (left := began + seconds - time.time()) > 0:
        attempt = site.training.start(_JOB, _PACE, ("--checkpoint-every", "20"))
        site.wait_step(_JOB, 1, attempt)
        tell(f"attempt {attempt} trains, {max(0.0, left) / 60:.0f} minutes are left")
        time.sleep(max(1.0, min(_PART_SECONDS, began + seconds - time.time())))
        site.training.preempt()
        restarts = attempt
    time.sleep(_LAST_SECONDS)
    late = site.notified()[before:]
    arrived = tuple(f"{each.alert} of {each.job} ({each.receiver})" for each in late
                    if each.status == FIRING)  # fmt: skip
    checkpoints = len(site.job(_JOB).get("checkpoints") or ())
    return Healthy(time.time() - began, restarts, checkpoints, arrived)
