"""A store with an incident that was found first and is explained by another."""

from __future__ import annotations

from pathlib import Path

from stepwatch.collector.incidents.lifecycle import advance
from stepwatch.collector.incidents.model import Moment, incident_from
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.names import Cause, FindingKind

from .made import JOB, HandClock, body, run_segments


def store_explained(path: Path) -> None:
    """Rank 2 is slow, an incident; then it is seen to have more data than its peers, the cause."""
    store = Store.sqlite(path)
    service = Service(store, HandClock(30.0))
    service.receive(body(run_segments(60, excess={(2, "forward"): 0.2}, slow_from=40)))
    service.evaluate()
    ((_, verdicts),), now = service.jobs_now()
    straggler = next(item for item in verdicts.findings if item.kind is FindingKind.STRAGGLER)
    skew = straggler._replace(
        kind=FindingKind.DATA_SKEW, cause=Cause.UNEVEN_SHARDS, summary="rank 2 has more samples"
    )
    moment = Moment(JOB, 0, now + 1, now, {2: "node-0"}, 4)
    incidents = [incident_from(item) for item in store.incidents.newest(JOB)]
    moved = advance(incidents, [straggler, skew], moment)
    store.save_evaluation(JOB, [], [item.document() for item in moved])
    store.close()
