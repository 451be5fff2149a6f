"""How large a store is, by kind and by job."""

from __future__ import annotations

from stepwatch.collector.store import Store
from stepwatch.collector.store.upkeep.sizes import KindSize, size_of
from tests.collector.made import JOB
from tests.collector.store.filled import OTHER, RECEIVED, add_evaluation, add_run, fill
from tests.collector.store.test_profiles import TRACE, WANTED


def test_each_kind_and_each_job_is_counted(opened: Store) -> None:
    fill(opened)
    add_run(opened, "longest", 1, steps=200)
    add_evaluation(opened, JOB, "open")
    opened.undecoded.keep([(b"later", 9)], 5)
    opened.profiles.add_trace(opened.profiles.add(WANTED).id, WANTED.rank, TRACE)
    size = size_of(opened.engine)
    assert [job.job for job in size.jobs] == ["longest", JOB, OTHER]
    by_job = {job.job: job for job in size.jobs}
    assert (by_job[JOB].segments, by_job[JOB].bytes) == opened.payload_bytes(JOB)
    assert by_job[JOB].records == 30 * 4 + 6 * 4 + 4
    assert by_job[JOB].last_received_ns == RECEIVED
    assert size.kinds["segments"] == KindSize(52, sum(job.bytes for job in size.jobs))
    slices = size.kinds["slices"]
    assert slices.rows == 2 and (slices.bytes is None or slices.bytes >= 4096)
    assert size.kinds["profiles"] == KindSize(1, len(TRACE))
    assert size.kinds["undecoded"] == KindSize(1, 5)
    assert size.kinds["incidents"].rows == 1 and size.kinds["snapshots"].rows == 0
    assert size.bytes > sum(job.bytes for job in size.jobs)


def test_an_empty_store_has_a_size(opened: Store) -> None:
    size = size_of(opened.engine)
    assert size.jobs == [] and size.kinds["segments"] == KindSize(0, 0) and size.bytes > 0
