"""What cannot be read of a job's log is said and counts as unknown; what may come back waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stepwatch.cli.jobs.status_text import job_text
from stepwatch.collector.runtime import restore
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state.holding.unread import Unread
from stepwatch.collector.store import Store
from stepwatch.collector.store.bundles import making
from stepwatch.collector.store.bundles.objects import Directory, ObjectsUnreachable, Remote
from stepwatch.collector.store.snapshots import StoredSnapshot
from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor
from stepwatch.collector.store.upkeep.payloads import Payloads
from stepwatch.collector.web import job_view
from stepwatch.signals import names
from stepwatch.signals.errors import SegmentError
from tests.collector.exported import metric
from tests.collector.made import EPOCH, JOB, HandClock, run_segments
from tests.collector.store.filled import DAY_NS, RECEIVED, stored

RUN = run_segments(150)
"""Thirty segments of five steps, which take a second each."""
SECOND_NS = 1_000_000_000


@pytest.fixture
def bundled(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A job of three bundles of ten segments, which are files; no snapshot can be read."""
    monkeypatch.setattr(making, "MOST_SEGMENTS", 10)
    for number, stored_segment in enumerate(stored(RUN), 1):
        store.add_segments([stored_segment], RECEIVED + number * SECOND_NS)
    store.snapshots.save(JOB, StoredSnapshot(len(RUN), b"damaged"), format=1, saved_ns=5)
    payloads = Payloads(store.engine, str(tmp_path / "objects"))
    compactor = Compactor(store.engine, lambda _: False, store.upkeep, payloads)
    assert compactor.compact(Compaction(), RECEIVED + DAY_NS).bundles == 3
    return store


def files(tmp_path: Path) -> list[Path]:
    """Those of the bundles, in the order of their positions."""
    paths = [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    return sorted(paths, key=lambda path: int(path.name.partition("-")[0]))


@pytest.fixture
def with_gap(bundled: Store, tmp_path: Path) -> Iterator[Service]:
    """A service that found the second of three bundles gone."""
    files(tmp_path)[1].unlink()
    service = Service(bundled, HandClock(31.0))
    service.evaluate()
    yield service


def test_positions_that_could_not_be_read_are_in_the_jobs_state(with_gap: Service) -> None:
    job_state = with_gap.job(JOB)
    assert job_state is not None
    (part,) = job_state[0].unread
    assert (part.first, part.last, part.segments) == (11, 20, 10)
    assert part.from_s == pytest.approx(EPOCH + 10.0, abs=0.5), "the newest step before it"
    assert part.until_s == EPOCH + 20.0


def test_status_and_metrics_say_it(with_gap: Service) -> None:
    job_state = with_gap.job(JOB)
    assert job_state is not None
    view: Any = job_view.job_summary(*job_state, with_gap.now())
    assert [(part["first"], part["last"]) for part in view["unread"]] == [(11, 20)]
    assert metric(with_gap, names.JOB_UNREAD_SEGMENTS) == 10.0
    text = " ".join(job_text(view, None, 80).split())
    assert "segments 11 to 20 of its log could not be read (10, " in text


def test_the_span_is_neither_healthy_nor_bad(with_gap: Service) -> None:
    job_state = with_gap.job(JOB)
    assert job_state is not None
    for status in job_state[1].slo_statuses:
        assert status.coverage is not None and float(status.coverage) == pytest.approx(2 / 3, 0.1)
        assert status.state.value == "frozen"


def test_a_snapshot_keeps_what_could_not_be_read(with_gap: Service, bundled: Store) -> None:
    original = with_gap.job(JOB)
    with_gap.snapshotter.save_all()
    restored = Service(bundled, HandClock(32.0)).job(JOB)
    assert original is not None and restored is not None
    assert restored[0].unread == original[0].unread != []
    assert isinstance(restored[0].unread[0], Unread)


def test_a_place_that_is_not_there_at_all_is_no_lost_object(bundled: Store, tmp_path: Path) -> None:
    """A file system that is not mounted has no file either."""
    (tmp_path / "objects").rename(tmp_path / "unmounted")
    service = Service(bundled, HandClock(31.0))
    service.evaluate()
    assert service.job(JOB) is None and service.withheld()[JOB].state == "restoring"


@pytest.mark.parametrize(
    ("code", "raised"),
    [("NoSuchKey", SegmentError), ("404", SegmentError), ("NoSuchBucket", ObjectsUnreachable)],
)
def test_a_bucket_that_is_not_there_is_no_lost_object(code: str, raised: type[Exception]) -> None:
    class Cause(Exception):
        response: ClassVar[object] = {"Error": {"Code": code}}

    class Files:
        def cat_file(self, url: str) -> bytes:
            raise FileNotFoundError(url) from Cause()

    with pytest.raises(raised):
        Remote(Files(), (OSError,)).get("s3://bucket/one")


def test_nothing_is_folded_past_a_gap_that_may_come_back(
    bundled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place fails at the second bundle, and is asked again a minute later."""
    get, hands = Directory.get, HandClock(31.0)

    def slow(self: Directory, url: str) -> bytes:
        if "/11-20-" in url:
            raise ObjectsUnreachable("503 Slow Down")
        return get(self, url)

    monkeypatch.setattr(restore, "PAGE_SEGMENTS", 5)
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "get", slow)
        service = Service(bundled, hands)
        service.evaluate()
        assert service.job(JOB) is None and service.withheld()[JOB].state == "restoring"
        service.evaluate()
    service.evaluate()
    assert service.job(JOB) is None, "it is not asked for each round"
    later = time.monotonic() + 2 * restore.ASIDE_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None and job_state[0].unread == []
    assert len(job_state[0].current.steps.history) == 150
