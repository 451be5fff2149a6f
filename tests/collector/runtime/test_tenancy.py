"""A collector holds what it can, gives up what is too much, and takes it again when it writes."""

from __future__ import annotations

import threading
import time

import pytest

from stepwatch.collector.runtime import restore, tenancy
from stepwatch.collector.runtime import service as service_module
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.state import live
from stepwatch.collector.store import Store
from stepwatch.collector.store.leases import Leases
from tests.collector.made import HandClock, body, run_segments
from tests.waiting import until


def service_over(store: Store, clock: HandClock, name: str = "one") -> Service:
    return Service(store, clock, Leases(store.engine, name))


def evaluated(service: Service) -> list[str]:
    """One round, as its threads make it."""
    service.evaluate()
    service.tenancy.tick()
    return sorted(service.tenancy.epochs())


def test_what_is_too_much_is_given_up_until_it_writes_again(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_JOBS", 2)
    service = service_over(store, clock)
    jobs = [run_segments(10, job=f"job-{number}") for number in range(3)]
    for first, _ in jobs:
        service.receive(body([first]))
        job_names = evaluated(service)
    assert job_names == ["job-1", "job-2"]
    assert evaluated(service) == job_names, "nobody takes it up"
    service.receive(body(jobs[0][1:]))
    service.evaluate()
    assert evaluated(service) == ["job-0", "job-2"]
    job_state = service.job("job-0")
    assert job_state is not None and len(job_state[0].current.steps.history) == 10


def test_a_restart_takes_up_what_it_held_itself(store: Store, clock: HandClock) -> None:
    first = service_over(store, clock, "first")
    first.receive(body(run_segments(10)))
    assert evaluated(first) == ["made-by-hand"]
    first.stop()
    first.run(0.001)
    second = service_over(store, clock, "second")
    assert second.job("made-by-hand") is not None and second.withheld() == {}
    assert dict(second.tenancy.epochs()) == {"made-by-hand": 2}


def test_a_new_job_is_shown_before_its_lease_is_claimed(store: Store, clock: HandClock) -> None:
    service = service_over(store, clock)
    service.receive(body(run_segments(10)))
    assert service.job("made-by-hand") is not None and not service.tenancy.epochs()
    service.evaluate()
    assert dict(service.tenancy.epochs()) == {"made-by-hand": 1}


def test_a_job_of_which_nothing_is_left_is_held_by_nobody(store: Store, clock: HandClock) -> None:
    first = service_over(store, clock, "first")
    first.receive(body(run_segments(10)))
    assert evaluated(first) == ["made-by-hand"]
    first.tenancy.leave()
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM segment")
    second = service_over(store, clock, "second")
    assert evaluated(second) == [] and second.withheld() == {}


def test_a_claim_whose_answer_was_lost_is_taken_up(store: Store, clock: HandClock) -> None:
    """It is in the database, under the holder's name: nobody else would evaluate the job."""
    service = service_over(store, clock)
    Leases(store.engine, "one").claim(["made-by-hand"])
    assert not service.tenancy.epochs()
    service.tenancy.tick()
    assert dict(service.tenancy.epochs()) == {"made-by-hand": 1}
    service.receive(body(run_segments(10)))
    service.evaluate()
    assert service.job("made-by-hand") is not None and service.tenancy.refused == 0


def test_leases_are_renewed_while_states_are_saved(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving the states of many large jobs at the end takes longer than a lease lasts."""
    service = service_over(store, clock)
    service.receive(body(run_segments(10)))
    service.evaluate()
    ticks, saving, renewed = service.tenancy.tick, threading.Event(), threading.Event()

    def tick() -> None:
        ticks()
        if saving.is_set():
            renewed.set()

    def save_all() -> None:
        saving.set()
        assert renewed.wait(60.0), "the leases run out meanwhile"
        assert dict(service.tenancy.epochs()) == {"made-by-hand": 1}

    monkeypatch.setattr(tenancy, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(service.tenancy, "tick", tick)
    monkeypatch.setattr(service.snapshotter, "save_all", save_all)
    service.stop()
    service.run(0.001)
    assert renewed.is_set() and not service.tenancy.epochs()


def test_a_collector_whose_lease_is_not_confirmed_is_not_ready(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_over(store, clock)
    assert service.why_not_ready() == ""
    monkeypatch.setattr(service_module, "READY_SECONDS", 0.01)
    time.sleep(0.02)
    assert service.why_not_ready() == "the store has not answered for 0 s"
    service.tenancy.tick()
    monkeypatch.undo()
    assert service.why_not_ready() == ""


def test_jobs_of_a_collector_that_is_gone_are_back_before_the_next_round_is_due(
    store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read back page by page, and evaluated, with no wait in between."""
    first, second = service_over(store, clock), service_over(store, clock, "two")
    first.receive(body(run_segments(40)))
    assert evaluated(first) == ["made-by-hand"]
    monkeypatch.setattr(restore, "PAGE_SEGMENTS", 1)
    monkeypatch.setattr(restore, "BUDGET_SECONDS", 0.0)
    monkeypatch.setattr(tenancy, "RENEW_SECONDS", 0.01)
    rounds, evaluate = [0], second.evaluate

    def counted(seconds: float) -> None:
        evaluate(seconds)
        rounds[0] += second.job("made-by-hand") is not None

    monkeypatch.setattr(second, "evaluate", counted)
    running = threading.Thread(target=second.run, args=(3600.0,))
    running.start()
    try:
        first.tenancy.leave()
        until("a round with the job", lambda: rounds[0], seconds=60.0)
    finally:
        second.stop()
        running.join()
