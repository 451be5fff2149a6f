"""Incidents as a collector holds them, from evaluation to evaluation."""

from __future__ import annotations

import math

from stepwatch.collector.detect.finding import NO_RANK, Evidence, Finding, build_finding
from stepwatch.collector.incidents.lifecycle import advance
from stepwatch.collector.incidents.model import Incident, Moment
from stepwatch.collector.incidents.states import OPEN
from stepwatch.signals.names import Cause, FindingKind

BEGAN = 1_800_000_000.0


def finding(
    kind: FindingKind = FindingKind.STRAGGLER,
    rank: int = 2,
    step: int = 30,
    ago: float = 4.0,
    lost: float = 0.5,
) -> Finding:
    evidence = (Evidence("self time", math.inf, "seconds", "peers"),)
    return build_finding(
        kind=kind,
        rank=rank,
        phase="forward",
        cause=Cause.SLOW_COMPUTE,
        summary="rank 2 is slow",
        began_step=step,
        began_ago_seconds=ago,
        ratio=math.inf,
        lost_ratio=lost,
        evidence=evidence,
    )


def slower(step: int = 32) -> Finding:
    return finding(FindingKind.THROUGHPUT_REGRESSION, NO_RANK, step=step)


class Story:
    """Incidents as a collector would hold them, from moment to moment."""

    def __init__(self) -> None:
        self.now = BEGAN
        self.incidents: dict[str, Incident] = {}

    def turn(
        self,
        *findings: Finding,
        seconds: float = 1.0,
        frozen: bool = False,
        ended: bool = False,
        attempt: int = 0,
        watched: float = math.inf,
    ) -> list[Incident]:
        """Let `seconds` pass, evaluate, and check what must hold at every moment."""
        self.now += seconds
        moment = Moment(
            "job", attempt, self.now, self.now - 0.5, {2: "node-1"}, 4, frozen, ended,
            watched_seconds=watched,
        )  # fmt: skip
        changed = advance(self.incidents.values(), findings, moment)
        for incident in changed:
            previous = self.incidents.get(incident.id)
            if previous is not None:
                assert incident.device_seconds_lost >= previous.device_seconds_lost
                assert incident.opened_at == previous.opened_at
                assert incident.last_seen_at >= previous.last_seen_at
        self.incidents.update((incident.id, incident) for incident in changed)
        open_keys = [item.key for item in self.incidents.values() if item.state == OPEN]
        assert len(open_keys) == len(set(open_keys)), "one open incident per key"
        return changed

    def states(self) -> list[str]:
        return [item.state for item in self.incidents.values()]
