"""Attempts that load a checkpoint and end before their first step: one incident over all tries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stepwatch.collector.incidents.model import Incident
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind, LifecycleEvent, ProcessState, Verification
from stepwatch.signals.wire import Rows, Segment
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
)
from tests.collector.state.test_restarts import loaded_rows, path_of, saved_rows

WORLD, SAVED = 4, 30
RANKS = range(WORLD)
MISMATCH = b"RuntimeError: Error(s) in loading state_dict for Net"
DAMAGED = b"RuntimeError: PytorchStreamReader failed reading zip archive"


def take(service: Service, clock: HandClock, *segments: Segment) -> None:
    for item in segments:
        assert [verdict.verdict for verdict in service.receive(body([item]))] == ["accepted"]
        clock.advance(1.0)
        service.evaluate()
    assert service.evaluation_failures == 0


def wait(service: Service, clock: HandClock, seconds: int = 8) -> None:
    for _ in range(seconds):
        clock.advance(1.0)
        service.evaluate()


def first_run(service: Service, clock: HandClock, state: Verification) -> None:
    """40 steps with one save, then SIGKILL of all ranks."""
    take(service, clock, *run_segments(40))
    saved = saved_rows(SAVED, path_of(SAVED))
    saved["state"] = state
    if state is Verification.DAMAGED:
        saved["reason"] = b"it is cut short"
    take(service, clock, segment(500, {Kind.VERIFICATION: saved}))
    states = state_rows(RANKS, WORLD, 9.0, 39)
    states["process_state"], states["exit_code"] = ProcessState.GONE, 137
    states["gone_ns"] = 9 * 10**9 + np.arange(WORLD) * 10**9
    take(service, clock, segment(501, {Kind.RANK_STATE: states}))
    wait(service, clock)


def life_of(events: Sequence[LifecycleEvent], time_s: float, text: bytes, loads: str) -> Rows:
    parts = [lifecycle_rows(event, RANKS, WORLD, time_s) for event in events]
    for part in parts:
        part["text"][part["event"] == LifecycleEvent.FAILURE] = text
    loaded = [loaded_rows(loads)] if loads else []
    for rows in loaded:
        rows["time_ns"] = round(time_s * 10**9)
    return np.concatenate([parts[0], *loaded, *parts[1:]])


def fail(
    service: Service, clock: HandClock, attempt: int, text: bytes, loads: str, number: int = 0
) -> None:
    """Ranks start, load a checkpoint and raise."""
    time_s = clock.monotonic
    events = (LifecycleEvent.START, LifecycleEvent.FAILURE)
    rows = {
        Kind.RANK_STATE: state_rows(RANKS, WORLD, time_s),
        Kind.LIFECYCLE: life_of(events, time_s, text, loads),
    }
    take(service, clock, segment(600 + number, rows, attempt=attempt))
    wait(service, clock)


def incidents(service: Service) -> list[Incident]:
    job_state = service.job(JOB)
    assert job_state is not None
    verdicts = job_state[1]
    return sorted(verdicts.incidents.values(), key=lambda item: item.opened_at)


@pytest.mark.parametrize("counted", [False, True])
def test_failed_resumes_are_one_incident_with_the_checkpoint_and_the_reason(
    store: Store, clock: HandClock, counted: bool
) -> None:
    service = Service(store, clock)
    first_run(service, clock, Verification.DAMAGED)
    for number in range(3):
        fail(service, clock, counted * (number + 1), DAMAGED, path_of(SAVED), number)
    failed = [item for item in incidents(service) if item.subject == "resume"]
    (incident,) = failed
    assert (incident.kind, incident.state, incident.cause) == (
        *("rank-failed", "open", "failed-resume"),
    )
    assert incident.attempt == 3 * counted
    assert f"the resume from step {SAVED} ({path_of(SAVED)}) failed" in incident.summary
    assert "PytorchStreamReader" in incident.summary
    evidence = {row["name"]: row for row in incident.evidence}
    assert evidence["checkpoint"]["text"] == path_of(SAVED)
    assert evidence["checkpoint"]["against"] == "damaged: it is cut short"


def test_a_cause_that_the_exception_names_stays(store: Store, clock: HandClock) -> None:
    service = Service(store, clock)
    first_run(service, clock, Verification.VERIFIED)
    fail(service, clock, 1, MISMATCH, path_of(SAVED))
    (incident,) = [item for item in incidents(service) if item.subject == "resume"]
    assert incident.cause == "checkpoint-mismatch"
    evidence = {row["name"]: row for row in incident.evidence}
    assert evidence["checkpoint"]["against"] == "it verified"


def test_a_start_that_fails_without_a_resume_is_none(store: Store, clock: HandClock) -> None:
    service = Service(store, clock)
    first_run(service, clock, Verification.VERIFIED)
    fail(service, clock, 1, DAMAGED, "/models/pretrained.pt")
    failed = [item for item in incidents(service) if item.kind == "rank-failed"]
    assert {item.subject for item in failed} == {""}


def test_a_resume_that_makes_a_step_ends_the_incident(store: Store, clock: HandClock) -> None:
    service = Service(store, clock)
    first_run(service, clock, Verification.VERIFIED)
    fail(service, clock, 1, DAMAGED, path_of(SAVED))
    time_s = clock.monotonic
    rows = {
        Kind.RANK_STATE: state_rows(RANKS, WORLD, time_s),
        Kind.LIFECYCLE: life_of([LifecycleEvent.START], time_s, b"", path_of(SAVED)),
    }
    take(service, clock, segment(700, rows, attempt=2))
    steps = step_rows(range(30), RANKS, began=time_s)
    take(service, clock, segment(701, {Kind.STEP: steps}, attempt=2))
    wait(service, clock, 20)
    assert [item.state for item in incidents(service) if item.subject == "resume"] != ["open"]
