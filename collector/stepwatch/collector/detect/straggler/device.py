"""A slow rank's device in its phase: its work, and its wait for the host."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwatch.collector.detect.finding import Evidence
from stepwatch.collector.detect.straggler.steps import EvaluatedSteps, SlowRank
from stepwatch.collector.quantities import seconds as in_words
from stepwatch.collector.state.evidence.step_window import DEVICE


class DeviceTimes(NamedTuple):
    """Medians over the steps that show a slow rank, in seconds per step, NaN where unknown.

    `idle` is the part of its phase in which its device had nothing enqueued ahead, and `peers_idle`
    that of its peers. `lead` is its host's lead at the end of a step, and `usual_lead` the median
    rank's.
    """

    idle: float
    peers_idle: float
    lead: float
    usual_lead: float


def device_times(slow: SlowRank, steps: EvaluatedSteps) -> DeviceTimes | None:
    """Return the device times for `slow`; None if the hosts' clock timed the steps."""
    if steps.window.clock != DEVICE:
        return None
    part = steps.around(np.array([slow.rank]))
    column, name = int(np.searchsorted(part.ranks, slow.rank)), f"{slow.phase}_idle"
    idle, lead = part.self_time(name), part.self_time("host_lead")[slow.shows]
    peers = part.peers(idle, name)
    return DeviceTimes(
        idle=float(np.median(idle[slow.shows, column])),
        peers_idle=float(np.median(peers[slow.shows, column])),
        lead=float(np.median(lead[:, column])),
        usual_lead=float(np.median(lead)),
    )


def device_evidence(
    phase: str, rank_seconds: float, peer_seconds: float, times: DeviceTimes
) -> tuple[Evidence, ...]:
    """Return evidence rows for the device's work, its wait and its host's lead.

    `rank_seconds` and `peer_seconds` are the seconds per step in `phase` of the rank and its peers.
    """
    peers_label = in_words(max(peer_seconds - times.peers_idle, 0.0))
    return (
        Evidence(
            f"device self time in {phase} per step",
            max(rank_seconds - times.idle, 0.0),
            "seconds",
            f"peers {peers_label}",
        ),
        Evidence(
            f"device waits for its host in {phase} per step",
            times.idle,
            "seconds",
            f"peers {in_words(times.peers_idle)}; an upper bound",
        ),
        Evidence(
            "host is ahead of its device by",
            times.lead,
            "seconds",
            f"median rank {in_words(times.usual_lead)}; at the end of a step",
        ),
    )
