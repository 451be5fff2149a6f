"""Thresholds of the straggler detector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a slow rank."""

    window_steps: int = 8
    """Steps: the newest ones that are evaluated. The fault must be named within 10 s for steps up
    to 1 s.
    """
    least_steps: int = 6
    """Steps: how many in the window, newest included, must show the excess. One or two noisy steps
    raise nothing.
    """
    least_ratio: float = 1.5
    """Ratio: self time over the peers'. Fail-slow jobs are reported to run 1.34x slower on average;
    a rank that is 1.5x slower than its peers in a phase is beyond the noise of shared hosts.
    """
    least_device_ratio: float = 1.25
    """Ratio: the same if timing events measure the device's work, without its wait for the host.
    Devices of one model differ by 8 % on average and by 22 % at most (Sinha et al., SC22,
    https://arxiv.org/abs/2208.11035).
    """
    least_excess_ratio: float = 0.15
    """Share: the excess over the peers in the step. Less is not worth acting at night."""
    cause_share: float = 0.5
    """Share: the excess that the wait for a CPU, or the device's wait for its host, must explain
    before it is the cause: most of it.
    """
    run_queue_pressure: float = 0.25
    """Share: from this part of the time on the run queue, `pressed_share` is enough, because the
    readings of the last seconds cover other steps than the window. A node with a CPU for each rank
    shows a few percent.
    """
    pressed_share: float = 0.2
    """Share: the excess that must be run-queue time under that pressure."""
    false_alarms_a_day: float = 0.02
    """Alarms a day: how many evidence may raise by chance in one job, over all its ranks, without a
    slow rank. It is two fifths of the 0.05 a day that all detectors together may raise.
    """
    least_lost_ratio: float = 0.02
    """Share: the least cost of a rank, even beyond chance. Less than two percent is not acted on.
    The lower bound of its 90 % interval must be half of it.
    """
    least_lost_unsure: float = 0.05
    """Share: the cost of a finding from only a few steps. The goodput objective leaves five
    percent.
    """
    least_log_over: float = 4.0
    """Log odds: it is over once so long a time without it would be this improbable if it lasted:
    e**-4, one in fifty. The rate is the share of ten-second buckets that showed it from its first
    to its newest one: it is over after 20 s if all buckets showed it, three minutes if one of five
    did.
    """
    most_costly: int = 64
    """Ranks: the most that are evaluated, the ones with the most evidence."""
    least_log_among_peers: float = 8.0
    """Log odds: against the long steps hitting this rank rather than its peers by chance, e**-8, in
    a job that has them by nature.
    """
    least_log_alone: float = 5.0
    """Log odds: the same if no peer ever had one, e**-5: eight long steps with two ranks, or four
    with four. It matters in the first minutes only.
    """
    stalls_of_data: float = 0.8
    """Share: the excess work in these steps that must be data."""
    least_log_stalls: float = 3.0
    """Log odds: against all hitting one rank by chance, if no peer ever had any, e**-3, one in
    twenty: six with two ranks, or four with four; otherwise `least_log_among_peers`. Their cost
    decides whether it is reported, `least_lost_unsure`: loaders that stall at this cost are a fact,
    whichever rank they hit.
    """


LIMITS = Thresholds()
"""The shipped thresholds."""
