"""A spike of the loss is found wherever it lies between two evaluations."""

from __future__ import annotations

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind
from tests.collector.made import JOB, HandClock, body, segment, state_rows, step_rows

RANKS, PER_SECOND = range(2), 10


@pytest.mark.parametrize("place", [0, 4, 8])
def test_two_steps_of_ten_between_two_evaluations(
    store: Store, clock: HandClock, place: int
) -> None:
    service, spike = Service(store, clock), (200 + place, 201 + place)
    for second in range(30):
        clock.advance(1.0)
        steps = range(second * PER_SECOND, (second + 1) * PER_SECOND)
        rows = step_rows(steps, RANKS, 1.0 / PER_SECOND)
        ends = clock.monotonic - (steps[-1] - rows["step"].astype(float)) / PER_SECOND
        rows["time_ns"] = (ends * 1e9).astype("u8")
        rows["loss"][(rows["step"] == spike[0]) | (rows["step"] == spike[1])] = 30.0
        states = state_rows(RANKS, len(RANKS), clock.monotonic, steps[-1], 0.05)
        tables = {Kind.STEP: rows, Kind.RANK_STATE: states}
        service.receive(body([segment(second + 1, tables)]))
        service.evaluate()
    assert service.evaluation_failures == 0
    (incident,) = store.incidents.newest(JOB)
    assert (incident["kind"], incident["cause"], incident["since_step"]) == (
        "loss-anomaly",
        "loss-spike",
        spike[0],
    )
