"""Profiles of ranks whose rings are on this node."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.profiles import (
    Outcome,
    RankRequest,
    RankServer,
    find_ranks,
    first_step,
    profile_ranks,
)
from stepwatch.signals import places
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.errors import UsageError

RATE_SECONDS = 1.0
"""Time in which the ranks' steps are counted, to find the length of a step."""


class Pair(NamedTuple):
    """A slow rank and the peer that it is compared with."""

    slow: RankServer
    peer: RankServer


def ranks_of(job: str, root: Path | None = None) -> list[RankServer]:
    """Return the running ranks of the job's newest attempt on this node.

    Raises:
        UsageError: none runs here.
    """
    ranks = find_ranks(job, places.ring_dir() if root is None else root)
    newest = max((rank.identity.attempt for rank in ranks), default=0)
    ranks = [rank for rank in ranks if rank.identity.attempt == newest]
    if not ranks:
        raise UsageError(
            f"no rank of {job} runs on this node; `stepwatch blackbox` lists this node's ranks"
        )
    return ranks


def choose(ranks: Sequence[RankServer], slow: int, peer: int | None) -> Pair:
    """Return the two ranks to profile; without `peer`, the next rank in the slow rank's stage.

    Raises:
        UsageError: one of them does not run here.
    """
    by_rank = {rank.identity.rank: rank for rank in ranks}
    for rank in (slow, peer):
        if rank is not None and rank not in by_rank:
            names = ", ".join(map(str, by_rank))
            raise UsageError(f"rank {rank} does not run on this node; these do: {names}")
    if peer == slow:
        raise UsageError("a rank cannot be compared with itself: pass another --peer")
    if peer is None:
        stage = by_rank[slow].identity.stage
        others = [
            number
            for number, rank in by_rank.items()
            if number != slow and rank.identity.stage == stage
        ]
        if not others:
            raise UsageError(f"no other rank of rank {slow}'s stage runs on this node: pass --peer")
        peer = min(others, key=lambda number: (abs(number - slow), number))
    return Pair(by_rank[slow], by_rank[peer])


def profile_pair(job: str, pair: Pair, steps: int, seconds: float) -> list[Outcome]:
    """Profile both ranks at the same steps; return their traces."""
    began = time.monotonic()
    time.sleep(RATE_SECONDS)
    wanted = {rank.identity.rank for rank in pair}
    ranks = [rank for rank in ranks_of(job) if rank.identity.rank in wanted]
    passed = max((rank.step for rank in ranks), default=0) - max(rank.step for rank in pair)
    step_s = (time.monotonic() - began) / passed if passed > 0 else RATE_SECONDS
    return profile_ranks(
        ranks,
        RankRequest(secrets.token_hex(8), first_step(ranks, step_s), steps),
        seconds=seconds,
        clock=SystemClock(),
        wait=threading.Event().wait,
    )
