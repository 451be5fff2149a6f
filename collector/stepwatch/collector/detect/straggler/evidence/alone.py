"""Ranks alone in their pipeline stage that are slower than before, or slow occasionally.

They have no peers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stepwatch.collector.analysis.stage_change import GrownStage, grown_stages
from stepwatch.collector.detect.observed import alone_in_stage
from stepwatch.collector.detect.rare_stages import RareStage
from stepwatch.collector.detect.straggler.thresholds import Thresholds
from stepwatch.collector.state.evidence.buckets import Course
from stepwatch.signals.arrays import SmallIntegers

from .costly import CostlyRank
from .episode import Share

_SHARE_95 = 1.6449
"""The 95 % quantile of the normal distribution."""


def alone_and_slower(course: Course, stage: SmallIntegers, limits: Thresholds) -> list[CostlyRank]:
    """Return ranks alone in their `stage` (ranks,) whose work has grown for good, at a cost."""
    single_stages = _alone_in(stage)
    if not single_stages:
        return []
    lone_stages = [grown for grown in grown_stages(course, stage) if grown.stage in single_stages]
    return [
        _costly(grown, int(np.flatnonzero(stage == grown.stage)[0]))
        for grown in lone_stages
        if grown.lost >= limits.least_lost_ratio
    ]


def _alone_in(stage: SmallIntegers) -> frozenset[int]:
    """Return the stages with one rank."""
    return frozenset(stage[alone_in_stage(stage)].tolist())


def _costly(grown: GrownStage, rank: int) -> CostlyRank:
    error = grown.lost * _SHARE_95 / grown.change.sure
    return CostlyRank(
        rank=rank,
        phase=grown.phase,
        lost=Share(grown.lost, grown.lost - error, grown.lost + error),
        now=grown.lost,
        since=grown.first_step,
        span=(grown.first_step, grown.first_step),
        log_odds=grown.change.sure**2 / 2,
        counts="compared with what it took before: it is alone in its stage",
    )


def alone_and_rarely_slow(
    rare: Sequence[RareStage], stage: SmallIntegers, limits: Thresholds
) -> list[CostlyRank]:
    """Return ranks alone in their `stage` (ranks,) that are slow in some steps, at a cost."""
    if not rare:  # nearly always
        return []
    single_stages = _alone_in(stage)
    return [
        _rarely(rare_stage, int(np.flatnonzero(stage == rare_stage.stage)[0]))
        for rare_stage in rare
        if rare_stage.stage in single_stages and rare_stage.lost >= limits.least_lost_ratio
    ]


def _rarely(rare: RareStage, rank: int) -> CostlyRank:
    error = rare.lost * _SHARE_95 / math.sqrt(len(rare.hits))
    first = int(rare.window.steps[rare.hits[0]])
    return CostlyRank(
        rank=rank,
        phase=rare.phase,
        lost=Share(rare.lost, rare.lost - error, rare.lost + error),
        now=rare.lost,
        since=first,
        span=(first, first),
        log_odds=rare.log_odds,
        counts="compared with its other steps, and with other stages: it is alone in its stage",
    )
