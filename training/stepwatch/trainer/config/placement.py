"""Assigns layers to pipeline stages and stages to pipeline ranks; arithmetic only."""

from __future__ import annotations

STAGES_PER_RANK = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zero-bubble": 2, "zbv": 2}


def stage_count(schedule: str, pp: int) -> int:
    """Return the number of stages in the whole pipeline; 1 without a pipeline."""
    return pp * STAGES_PER_RANK[schedule] if pp > 1 else 1


def stages_of_rank(schedule: str, pp: int, rank: int) -> list[int]:
    """Return the stage indices on pipeline rank `rank`.

    Two stages a rank on two ranks: interleaved gives [0, 2] and [1, 3], zbv (a V) [0, 3] and
    [1, 2].
    """
    count = stage_count(schedule, pp)
    if schedule == "zbv" and pp > 1:
        return [rank, count - 1 - rank]
    return list(range(rank, count, pp))


def layers_of_stage(layers: int, stages: int, stage: int) -> range:
    """Return the global layer indices on one stage; `stages` divides `layers`."""
    share = layers // stages
    return range(stage * share, (stage + 1) * share)


def ideal_bubble(schedule: str, pp: int, microbatches: int) -> float:
    """Return the idle fraction of a pipeline in which forward, input gradients and weight gradients
    take equal time.

    (p - 1) / (v m + p - 1) for p ranks, m micro-batches and v stages per rank:
    https://arxiv.org/abs/2104.04473, section 2.2. For the zero-bubble schedules it is an upper
    bound; the hooks simulate their exact order.
    """
    if pp == 1:
        return 0.0
    work = STAGES_PER_RANK[schedule] * microbatches
    return (pp - 1) / (work + pp - 1)
