"""From segments to incidents: effects below one and a half times, and what stays of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from tests.collector.made import JOB, HandClock, body, run_segments


def incidents(
    store: Store, steps: int, excess: Mapping[tuple[int, str], float] | None
) -> list[Incident]:
    """Of a run with steps of a second, two ranks to a stage, looked at every ten seconds."""
    clock = HandClock()
    service = Service(store, clock)
    for number, item in enumerate(run_segments(steps, seconds=1.0, excess=excess)):
        clock.advance(5.0)
        service.receive(body([item]))
        if number % 2:
            service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None
    return list(job_state[1].incidents.values())


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_rank_that_is_slow_from_its_first_step_is_named_with_its_cost(
    store: Store, phase: str
) -> None:
    """1.45 times in one phase: below what any rule of a few steps looks at."""
    more = 0.45 * {"forward": 0.25, "backward": 0.4}[phase]
    (incident,) = incidents(store, 110, {(2, phase): more})
    assert (incident.kind, incident.rank, incident.phase) == ("straggler", 2, phase)
    assert incident.since_step <= 3
    share = more / (1.0 + more)
    assert incident.throughput_lost_ratio == pytest.approx(share, rel=0.1)
    assert incident.severity == "alert"
    names = [row["name"] for row in incident.evidence]
    assert "share of the time lost" in names and "how ranks are compared" in names


def test_a_percent_opens_nothing(store: Store) -> None:
    assert incidents(store, 110, {(2, "backward"): 0.012}) == []
