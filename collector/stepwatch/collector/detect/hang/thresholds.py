"""Thresholds of the hang detector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Thresholds for a stalled job."""

    least_seconds: float = 5.0
    """Seconds: the shortest time without any rank's progress that counts. It is twice the longest
    update gap in healthy runs.
    """
    step_multiple: float = 8.0
    """Median steps: the time without progress that counts, if it is longer than `least_seconds`."""
    first_step_seconds: float = 600.0
    """Seconds: the limit before the first step has ended. Compilation and first network use take
    minutes.
    """
    early_seconds: float = 30.0
    """Seconds: the shortest time without progress that counts in the first steps, before there is a
    median. The longest step times `step_multiple` counts if it is larger, which spans a second
    compilation after a short first step.
    """
    legal_seconds: float = 75.0
    """Seconds: how long a rank may block others without CPU time, bytes or a child at work before a
    page. Waits for a hub, a database, a lock or a late batch, and evaluations on one rank without a
    hook, take up to a minute in healthy runs; a quarter is added for agent and collector delays.
    Beyond it, a rank that works is a ticket. It also applies to unobserved ranks, and to a
    collective with all ranks inside but no moving bytes: a flapping link takes 10 to 20 s, a model
    broadcast may take as long.
    """
    marked_seconds: float = 105.0
    """Seconds: the same in a marked checkpoint or evaluation, whose author declares that it takes
    long. A page is due within two minutes, and evaluations and alerts take some seconds.
    """
    pause_multiple: float = 1.5
    """Ratio: the limit for a wait from which the job recovered before, over the longest one in the
    same phase.
    """
    pause_seconds: float = 900.0
    """Seconds: how long signs of work explain a marked checkpoint or evaluation, or one without
    waiting ranks.
    """
    held_seconds: float = 480.0
    """Seconds: how long signs of work explain the others' wait in a collective for unmarked work,
    and so also for an unknown process. NCCL gives up after 600 s by default
    (torch.distributed.init_process_group, `timeout`), and two minutes are left to look.
    """
    heartbeat_seconds: float = 3.0
    """Seconds: an older heartbeat means that the rank's interpreter runs no other thread, because
    its lock is held.
    """
    lost_node_seconds: float = 10.0
    """Seconds: the limit if all observed ranks wait in a collective for ranks on a node that fell
    silent when they halted. It lost its power or its network, as a pause that begins within seconds
    of an agent's end is rare. It is below the telemetry limit by the largest distance between both
    moments, so that a lost node is one incident.
    """
    late_seconds: float = 0.5
    """Seconds: by how much a lost node's last report may be later than a flush before the others'
    last step. It was in transit, or its agent had little time.
    """
    order_steps: int = 8
    """Steps: how many earlier ones are read for the collective order. Ranks that wait in a later
    collective of a step show that the others have entered it, so none evaluates.
    """
    least_order_steps: int = 4
    """Steps: how many of these must be known. Loops that accumulate gradients or sample their logs
    have steps that differ.
    """
    missed_flushes: float = 3.0
    """Flushes: a node that missed this many may be lost. One flush may be late, two rarely are."""


LIMITS = Thresholds()
"""The shipped thresholds."""
