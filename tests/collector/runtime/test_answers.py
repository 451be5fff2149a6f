"""An answer that cannot be made is an answer less; every other one is given."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from stepwatch.collector.runtime.evaluation.verdicts import Verdicts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.runtime.views import View
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Leases
from stepwatch.collector.web.documents import LINE
from tests.collector.made import HandClock, body, run_segments


def broken(job: LiveJob, verdicts: Verdicts, now: float) -> str:
    """Cannot be made of one job, and cannot be finished of another."""
    if job.name == "cannot-be-made":
        raise ValueError("rows do not fit")
    return job.name


def finish(answer: str) -> bytes:
    if answer == "cannot-be-finished":
        raise KeyError(answer)
    return answer.encode()


BROKEN = View("broken", broken, finish)
JOBS = ["cannot-be-finished", "cannot-be-made", "fine"]


@pytest.fixture
def service(store: Store, clock: HandClock) -> Service:
    service = Service(store, clock, Leases(store.engine, "one"))
    for job in JOBS:
        service.receive(body(run_segments(5, job=job)))
    service.evaluate()
    return service


def test_readers_get_the_other_answers(service: Service) -> None:
    assert [answer.value for answer in service.answers(BROKEN)] == [b"fine"]
    assert len(service.answers(LINE)) == 3
    service.evaluate()
    assert service.withheld() == {} and service.evaluation_failures == 0


def test_other_collectors_get_the_other_answers(service: Service, store: Store) -> None:
    Leases(store.engine, "two").beat()
    service.tenancy.tick()
    service.shared_views.offer([BROKEN, LINE], ["broken", "line"])
    service.evaluate()
    assert [view.job for view in store.views.all_of("broken")] == ["fine"]
    assert sorted(view.job for view in store.views.all_of("line")) == JOBS


def test_answers_that_cannot_be_written_are_written_the_next_time(
    service: Service, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Leases(store.engine, "two").beat()
    service.tenancy.tick()
    service.shared_views.offer([LINE], ["line"])

    def refused(*_: object) -> None:
        raise sa.exc.OperationalError("INSERT", {}, Exception("the disk is full"))

    with monkeypatch.context() as patch:
        patch.setattr(store.views, "save", refused)
        service.evaluate()
    assert store.views.all_of("line") == [] and service.evaluation_failures == 0
    service.shared_views._next_s = 0.0
    service.evaluate()
    assert sorted(view.job for view in store.views.all_of("line")) == JOBS
