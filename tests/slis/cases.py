"""Faults that move SLIs, and each SLI's expected figure at the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.slis import figures
from tests.slis.figures import Figure

BEGINS, ENDS, STEPS = 50, 90, 140
"""Steps before which a fault begins and ends, and the steps of a run, which is long enough that
accounts, read every five seconds, cover each part.
"""
_FLAT = ("--mesh", "dp_shard=4", "--schedule", "1f1b")


class Row(NamedTuple):
    """An SLI, its figure by hand, and the tolerance: a share of the figure, and an absolute
    difference for figures near 0.

    With `has_before` the figure is the fault's share of device-time; the rest is as before it.
    """

    sli: str
    figure: Figure
    share: float = 0.15
    absolute: float = 0.02
    has_before: bool = False


class Case(NamedTuple):
    """A run of the reference trainer. `stop_at` is a step at which it gets SIGTERM, 0: none."""

    name: str
    moved_by: str
    faults: Sequence[str]
    rows: Sequence[Row]
    words: Sequence[str] = _FLAT
    stop_at: int = 0
    ends: int = ENDS


def _during(fault: str) -> list[str]:
    return [f"{fault},step={BEGINS},until={ENDS}"]


CASES = (
    Case(
        "healthy",
        "nothing",
        [],
        [
            Row("job-success", figures.constant(1.0)),
            Row("attempt-success", figures.constant(1.0)),
            Row("checkpoint-success", figures.verified_share),
            Row("checkpoint-stall", figures.stall_share, 0.3),
            Row("time-to-durable", figures.durable_seconds),
            Row("time-to-complete", figures.completion_seconds, 0.0, 15.0),
            Row("verified-checkpoint-age", figures.verified_age_seconds, 0.15, 1.0),
            Row("telemetry-completeness", figures.constant(1.0)),
            Row("convergence", figures.constant(0.0)),
            Row("cost-per-million-tokens", figures.cost, 0.3),
        ],
    ),
    Case(
        "slow-compute",
        "rank 2 computes 0.5 s longer",
        _during("slow-compute:rank=2,seconds=0.5"),
        [
            Row("step-time-p50", figures.percentile(50)),
            Row("step-time-p95", figures.percentile(95)),
            Row("step-time-p99", figures.percentile(99)),
            Row("step-time-spread", figures.spread),
            Row("step-time", figures.usual_share, 0.0, 0.05),
            Row("throughput", figures.throughput),
            Row("arrival-skew", figures.share_of_other_ranks, 0.15, 0.05),
        ],
    ),
    Case(
        "slow-data",
        "rank 2 waits 1.5 s longer for data",
        _during("slow-data:rank=2,seconds=1.5"),
        [
            Row("data-wait", figures.share_of_one_rank, 0.15, 0.03),
            Row("arrival-skew", figures.share_of_other_ranks, 0.15, 0.05),
        ],
    ),
    Case(
        "slow-collective",
        "a transfer takes 0.5 s longer",
        _during("slow-collective:rank=2,seconds=0.5"),
        [Row("exposed-communication", figures.share_of_all_ranks, 0.0, 0.05, has_before=True)],
    ),
    Case(
        "checkpoint-stall",
        "rank 0 stands 4 s longer in saves",
        _during("checkpoint-stall:rank=0,seconds=4"),
        [Row("checkpoint-stall", figures.single_rank_stall_share, 0.2, 0.005)],
        (*_FLAT, "--checkpoint-every", "10"),
    ),
    Case(
        "nan-gradients",
        "gradients of rank 1 are not finite, once",
        [f"nan-gradients:rank=1,step={BEGINS},until={BEGINS + 1}"],
        [Row("convergence", figures.constant(1.0))],
    ),
    Case(
        "stage-imbalance",
        "a pipeline's last stage computes 0.1 s longer a microbatch",
        [f"stage-imbalance:rank=2,seconds=0.1,step={BEGINS}"],
        [Row("bubble-over-ideal", figures.bubble_over_ideal, 0.3, 0.05)],
        ("--mesh", "pp=2,dp_shard=2", "--schedule", "1f1b"),
    ),
    Case(
        "kill",
        "SIGKILL of rank 1 in step 70, the newest good save at 60, one restart",
        ["kill:rank=1,step=70"],
        [
            Row("job-success", figures.constant(1.0)),
            Row("attempt-success", figures.constant(0.5)),
            Row("goodput", figures.kept_share, 0.0, 0.03),
            Row("interruptions", figures.per_device_days, 0.2, 0.0),
            Row("resume-success", figures.constant(1.0)),
            Row("requeue-rate", figures.constant(0.5)),
            Row("lost-steps", figures.lost_steps, 0.0, 0.0),
            Row("recovery-time", figures.idle_seconds, 0.25, 2.0),
        ],
        (*_FLAT, "--restarts", "1"),
    ),
    Case(
        "preemption",
        "SIGTERM to the launcher at step 70",
        [],
        [Row("preemptions", figures.constant(1.0))],
        stop_at=70,
    ),
)
NOT_COMPARED = {
    "waste": "what transfers of usual steps take is not in the trainer's files",
    "collective-time": "the same",
}
"""SLIs without a figure by hand; `tests/collector/slo/test_waste.py` checks that their parts add up
to all device-time."""
NOT_MOVED = {
    "device-busy": "no GPU",
    "tensor-activity": "no GPU",
    "mfu": "no GPU, so no peak to compare with",
    "network-use": "ranks talk over loopback",
    "scaling-efficiency": "one node",
}
"""SLIs that are unknown on one machine without a GPU, with the reason."""
