"""A store with an open incident of each kind, as an evaluation leaves them, and a ring of its job.

The steps are synthetic and the findings are built, not detected: the detectors' tests and `make
verdicts` show that a fault leads to its finding.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from stepwatch.collector.detect.finding import Evidence, Finding, build_finding
from stepwatch.collector.incidents.lifecycle import advance
from stepwatch.collector.incidents.model import Moment
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.blackbox import Identity, RingWriter
from stepwatch.signals.names import Cause, FindingKind
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.made import JOB, HandClock, body, run_segments
from tests.collector.nodes.sightings import DISK_SLOW, just_now

RANK, NODE, STEP = 2, "node-0", 40


def store_with_every_kind(path: Path) -> dict[FindingKind, str]:
    """Write the store; returns the id of the open incident of each kind."""
    store = Store.sqlite(path)
    service = Service(store, HandClock(30.0))
    segments = run_segments(60)
    for run_segment in segments:
        # This class has the SLOs that a page names.
        run_segment.tables[Kind.RANK_STATE]["job_class"] = b"production"
    # Playbooks ask for the history of the incident's node.
    service.receive(body([*segments, just_now(NODE, DISK_SLOW)]))
    service.evaluate()
    _, now = service.jobs_now()
    moment = Moment(JOB, 0, now + 1, now, {RANK: NODE}, 4)
    opened = [
        incident for kind in FindingKind for incident in advance([], [_finding(kind)], moment)
    ]
    store.save_evaluation(JOB, [], [incident.document() for incident in opened])
    store.close()
    return {FindingKind(incident.kind): incident.id for incident in opened}


def _finding(kind: FindingKind) -> Finding:
    return build_finding(
        kind=kind,
        cause=Cause.UNKNOWN,
        summary=f"{kind.value} of rank {RANK}",
        began_step=STEP,
        rank=RANK,
        phase="forward",
        began_ago_seconds=4.0,
        evidence=[Evidence("self time", 1.0, "seconds", "peers")],
    )


def ring_of_the_job(folder: Path) -> None:
    """Leave a ring of the rank below `folder`, as a trainer leaves it."""
    place = folder / JOB / "0" / str(RANK)
    place.parent.mkdir(parents=True)
    ring = RingWriter(place, Identity(JOB, 0, RANK, 4, NODE, os.getpid(), 7, 16))
    ring.write(Kind.LIFECYCLE, STEP, time.monotonic_ns(), LifecycleEvent.START, STEP, b"")
    ring.close()
