"""Thresholds of the slow-collective detector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a slow transfer."""

    window_steps: int = 8
    """Steps: the newest ones that are evaluated, as for stragglers. The fault is named within 10 s
    for steps up to 1 s.
    """
    least_steps: int = 6
    """Steps: how many of these, newest included, must be slow. One or two noisy steps raise
    nothing.
    """
    least_ratio: float = 2.0
    """Ratio: a transfer over its duration in the run's first steps. Degraded links are reported at
    2x to 10x; transfers on shared hosts vary by half without any fault.
    """
    least_excess_ratio: float = 0.15
    """Share: the excess in the step. Less is not worth acting at night."""
    certain_ratio: float = 5.0
    """Ratio: this far above its baseline, a transfer counts from a smaller share. Only a bad path
    multiplies it like this.
    """
    certain_excess_ratio: float = 0.05
    """Share: the excess in the step of such a transfer."""
    certain_long_steps: int = 3
    """Steps: few long ones in a row are enough, if together they take `certain_long_seconds` and
    each is far above.
    """
    certain_long_seconds: float = 5.0
    """Seconds: the total of `certain_long_steps`."""
    certain_few_steps: int = 2
    """Steps: even fewer are enough, if together they take `certain_few_seconds`."""
    certain_few_seconds: float = 8.0
    """Seconds: the total of `certain_few_steps`."""
    related_steps: int = 3
    """Steps: an operation that is slow in this many belongs to a fault that another one has proved.
    """
    clearing_bytes_ratio: float = 0.25
    """Share: a group clears its members from a slow path only if it passes at least this part of
    the slow group's bytes. A few bytes do not show a slow link.
    """
    wait_ratio: float = 1.5
    """Ratio: between pipeline stages, the wait for neighbours over that in the run's first steps. A
    bubble of a third of the step is usual, so half as long again is beyond microbatch rounding and
    jitter.
    """
    certain_wait_ratio: float = 2.5
    """Ratio: the same for few long steps in a row."""
    certain_wait_excess_ratio: float = 0.3
    """Share: the excess in each of these few long steps."""
    blocked_ratio: float = 0.15
    """Share: if the wait exceeds the schedule's, ranks must be blocked in one stage pair's sends
    for this part of a step. A wait alone may come from an unknown work order.
    """
    lasting_ratio: float = 1.5
    """Ratio: a change that has lasted for two minutes, beyond eight standard errors over ten-second
    buckets, is half as long again as before, at a cost worth a ticket.
    """
    lasting_work_ratio: float = 1.05
    """Ratio: if ranks also work longer by more than this factor, it is another batch, or a slow
    host.
    """
    lasting_lost_ratio: float = 0.05
    """Share: the cost of a lasting change that is worth a ticket."""
    lasting_rest_sure: float = 5.0
    """Standard errors: between pipeline stages, the remaining change after subtracting the work
    growth.
    """
    stands_out: float = 5.0
    """Deviations: one rank's work must have grown by this many more than all ranks' before the
    others' wait is attributed to it. With many ranks, or few long steps in a bucket, one of them
    grows a lot by chance.
    """
    elsewhere_seconds: float = 40.0
    """Seconds: enough observation time against an earlier attempt, or other jobs in the class. Both
    are compared as a whole, in nine of ten buckets, by `lasting_ratio` and `lasting_lost_ratio`.
    """
    elsewhere_jobs: int = 3
    """Jobs: how many of the class must be known. The wait must exceed the longest of theirs."""
    elsewhere_work_ratio: float = 0.2
    """Share: ranks whose work differs from the other run's by more do other work, or run on other
    hosts. Means over twenty steps with two lengths differ by a twelfth.
    """
    elsewhere_seen_share: float = 0.9
    """Share: the steps in a bucket that must be known per rank. An occasionally lost row hides no
    rank.
    """
    always_share: float = 0.667
    """Share: a transfer that takes two thirds of the time since the first steps is named, whether
    the network or the job causes it, as it has no reference. Small models on slow hosts exchange
    for half of their time.
    """
    always_seconds: float = 120.0
    """Seconds: how long `always_share` must last, in ten-second buckets."""
    always_buckets: float = 0.9
    """Share: the buckets that must show it."""
    most_share: float = 0.8
    """Share: four fifths is more than any job is designed for, so three or four buckets are enough.
    """
    most_share_seconds: float = 40.0
    """Seconds: how long `most_share` must last."""


LIMITS = Thresholds()
"""The shipped thresholds."""
