"""How jobs ended, on `/metrics`: an end, a duration, recoveries, incidents, and whose a job is."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.exported import newest_steps
from stepwatch.signals import names
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.collector.made import (
    JOB,
    SHARES,
    HandClock,
    body,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
    with_facts,
)
from tests.collector.web.test_metrics import ended, families, series


def exported(service: Service) -> dict[tuple[str, ...], float]:
    return series(families(service))


def outcome(service: Service) -> set[str]:
    return {key[2] for key in exported(service) if key[0] == names.JOB_OUTCOME.name}


def second_attempt(clock: HandClock) -> bytes:
    """A second attempt that goes on at step 8, half a minute later."""
    rows = step_rows(range(8, 14), range(4), began=30.0)
    began = lifecycle_rows(LifecycleEvent.START, range(4), 4, time_s=30.0)
    resumed = lifecycle_rows(LifecycleEvent.RESUME, range(4), 8, time_s=31.0)
    tables = {
        Kind.LIFECYCLE: np.concatenate([began, resumed]),
        Kind.STEP: rows,
        Kind.RANK_STATE: state_rows(range(4), 4, clock.monotonic, 13),
    }
    return body([segment(950, tables, attempt=1)])


def test_a_job_that_runs_has_no_outcome_and_no_duration(service: Service) -> None:
    service.receive(body(run_segments(12)))
    service.evaluate()
    assert outcome(service) == set()
    unknown = {names.JOB_DURATION.name, names.JOB_RECOVERY.name, names.JOB_INCIDENTS.name}
    assert unknown.isdisjoint(name for name, *_ in exported(service))


@pytest.mark.parametrize(
    ("event", "name"),
    [(LifecycleEvent.FINISH, "finished"), (LifecycleEvent.INTERRUPT, "interrupted")],
)
def test_an_end_in_order_is_an_outcome(
    service: Service, clock: HandClock, event: LifecycleEvent, name: str
) -> None:
    service.receive(body(run_segments(12)))
    ended(service, clock, event)
    assert outcome(service) == {name}
    assert ((names.JOB_DURATION.name, JOB) in exported(service)) is (name == "finished")


def test_a_failed_job_that_is_restarted_is_not_among_the_failed(
    service: Service, clock: HandClock
) -> None:
    service.receive(body(run_segments(12)))
    ended(service, clock, LifecycleEvent.FAILURE)
    assert outcome(service) == {"failed"}
    failures = exported(service)[(names.JOB_INCIDENTS.name, JOB, "rank-failed")]
    assert failures == 1.0
    service.receive(second_attempt(clock))
    service.evaluate()
    assert outcome(service) == set(), "it runs again"
    exported_values = exported(service)
    assert exported_values[(names.JOB_INCIDENTS.name, JOB, "rank-failed")] == failures, "it was one"
    # The last step of the first attempt ended at 2.4 s, the first of the second at 31.8 s.
    assert exported_values[(names.JOB_RECOVERY.name, JOB)] == pytest.approx(31.8 - 2.4)


def test_outcome_and_incidents_are_the_same_after_a_restart_of_the_collector(
    service: Service, clock: HandClock, store: Store
) -> None:
    service.receive(body(run_segments(12)))
    ended(service, clock, LifecycleEvent.FAILURE)
    restarted = Service(store, clock)
    restarted.evaluate()
    metric_names = {names.JOB_OUTCOME.name, names.JOB_INCIDENTS.name}
    before_it = {key: value for key, value in exported(service).items() if key[0] in metric_names}
    assert before_it == {
        key: value for key, value in exported(restarted).items() if key[0] in metric_names
    }
    assert len(before_it) >= 2


def test_whose_a_job_is_is_unknown_where_nobody_says_it(service: Service) -> None:
    owner_facts = [("owner.project", "assistant"), ("owner.cost_centre", "4711")]
    service.receive(body(with_facts(run_segments(40), *owner_facts)))
    service.receive(body(run_segments(40, job="nobodys")))
    service.evaluate()
    owners = {key[1:] for key in exported(service) if key[0] == names.JOB_OWNER.name}
    assert owners == {(JOB, "assistant", "unknown"), ("nobodys", "unknown", "unknown")}


def test_a_stage_waits_for_the_one_that_takes_longer(service: Service) -> None:
    """Steps of 0.2 s in which both stages work for 0.15 s; the second works 0.05 s longer."""
    excess = {(rank, "forward"): 0.05 for rank in (2, 3)}
    service.receive(body(run_segments(20, excess=excess)))
    service.evaluate()
    idle = {
        key[2]: value for key, value in exported(service).items() if key[0] == names.STAGE_IDLE.name
    }
    work = 0.2 * sum(SHARES.values())
    assert idle == {
        "0": pytest.approx(1 - work / 0.25, abs=1e-6),
        "1": pytest.approx(1 - (work + 0.05) / 0.25, abs=1e-6),
    }


def test_ranks_of_one_stage_have_no_idle_stage(service: Service) -> None:
    segments = run_segments(20)
    for sent_segment in segments:
        sent_segment.tables[Kind.RANK_STATE]["stage"] = 0
    service.receive(body(segments))
    service.evaluate()
    assert names.STAGE_IDLE.name not in {name for name, *_ in exported(service)}


def test_more_stages_than_a_dashboard_shows_are_left_out(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_steps, "MOST_STAGES", 1)
    service.receive(body(run_segments(20)))
    service.evaluate()
    assert names.STAGE_IDLE.name not in {name for name, *_ in exported(service)}
