"""What happens to incidents, written to a store as an evaluation does; and the database's clock."""

from __future__ import annotations

from dataclasses import replace

from stepwatch.collector.incidents.model import Incident, incident_from
from stepwatch.collector.incidents.notices import notices_of
from stepwatch.collector.store import Store
from stepwatch.signals.clock import NANOSECONDS

ONCALL = "oncall"
HANG = replace(
    incident_from({"id": "0123456789ab", "job": "llama", "kind": "hang"}),
    node="gpu-01",
    cause="unknown",
    summary="rank 3 on gpu-01 hangs <&>",
    alert="TrainingHang",
    runbook="TrainingHang",
    throughput_lost_ratio=1.0,
)


class Time:
    """The database's clock, which the test turns."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self, _: object) -> int:
        return int(self.seconds * NANOSECONDS)


def hang(number: int) -> Incident:
    """One of several incidents in several jobs."""
    return replace(HANG, id=f"{number:012x}", job=f"job-{number % 3}")


def becomes(
    store: Store, clock: Time, state: str, *incidents: Incident, receiver: str = ONCALL
) -> None:
    """Incidents come into a state now, from open if that is another one."""
    for incident in incidents or (HANG,):
        stored_incident = store.incidents.one(incident.id)
        previous = {} if stored_incident is None else {incident.id: incident_from(stored_incident)}
        now = replace(incident, state=state, opened_at=clock.seconds)
        notices = notices_of(previous, [now], clock.seconds, (receiver,))
        store.save_evaluation(incident.job, [], [now.document()], None, notices)
