"""`/metrics`: exactly the declared names and labels, nothing unknown, bounded per job."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.cli.jobs import status_text
from stepwatch.cli.slos.in_full import in_full
from stepwatch.collector.runtime.evaluation.job_state import ABANDONED_SECONDS
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.openslo import default_slos
from stepwatch.collector.slo.asked.rates import Rate, RateCard
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.slo.over_run.slis.pace.throughput import FLOPS, PEAK
from stepwatch.collector.state.trackers.checkpoints import Checkpoint, failures_in_a_row
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view, metrics, slo_view
from stepwatch.collector.web.metrics import JobExporter
from stepwatch.signals import names
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent
from tests.collector.made import (
    JOB,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
    with_facts,
)
from tests.collector.runtime.test_evaluation import Site

DECLARED = {name: metric for metric in names.METRICS for name in metric.series_names}
OTHERS_EXPORT = ("stepwatch_node_", "stepwatch_agent_")
LIMIT = 100


def families(service: Service) -> list[Family]:
    """The metrics as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


def series(metric_families: Iterable[Family]) -> dict[tuple[str, ...], float]:
    """Value by (name, label values in order of name)."""
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in metric_families
        for sample in family.samples
    }


@pytest.fixture
def busy(service: Service, clock: HandClock) -> Service:
    """A job with stragglers in every slot, checkpoints of every kind and two attempts."""
    excess = {(rank, "forward"): 0.2 for rank in (1, 2, 4, 6, 9, 13)}
    service.receive(body(run_segments(40, world=16, excess=excess, slow_from=20)))
    for step, event in enumerate(CheckpointEvent):
        service.receive(
            body([segment(50 + step, {Kind.CHECKPOINT: checkpoint_rows(event, [0], step)})])
        )
    service.evaluate()
    return service


def test_names_and_labels_are_those_declared(busy: Service) -> None:
    labels_by_name: dict[str, set[tuple[str, ...]]] = {}
    for family in families(busy):
        assert family.documentation
        for sample in family.samples:
            labels = {key for key in sample.labels if key != "le"}
            assert sample.name in DECLARED, sample.name
            assert labels == set(DECLARED[sample.name].labels), sample.name
            labels_by_name.setdefault(sample.name, set())
    # A job that runs has not failed, no record is of an unknown kind, no device times the steps,
    # nothing is old enough to be looked for, no budget burns, and nobody is notified.
    absent = {names.SECONDS_SINCE_FAILURE.name, names.COLLECTOR_UNKNOWN_RECORDS.name}
    absent |= {names.DEVICE_IDLE.name, names.HOST_LEAD.name, names.COLLECTOR_RETENTION_TIME.name}
    # Nobody said what a device-hour costs.
    absent |= {names.SLO_BURN_RATE.name, names.JOB_COST.name}
    absent |= {names.COLLECTOR_NOTICES.name, names.COLLECTOR_NOTICES_GIVEN_UP.name}
    # What the web server itself exports.
    absent |= {names.COLLECTOR_REFUSED_REQUESTS.name, names.COLLECTOR_CONNECTIONS.name}
    absent |= {names.COLLECTOR_CONNECTIONS_CLOSED.name}
    absent |= {names.COLLECTOR_EVENT_STREAMS.name, names.COLLECTOR_EVENT_STREAMS_REFUSED.name}
    # What the sender of metrics over OTLP exports.
    absent |= {names.COLLECTOR_OTLP_POINTS.name}
    absent |= {names.COLLECTOR_NOTICES_SENT.name, names.COLLECTOR_NOTICES_OLDEST.name}
    absent |= {names.COLLECTOR_SILENCE_OLDEST.name}
    # A thread beside the web server counts profiles.
    absent |= {names.COLLECTOR_PROFILES.name, names.COLLECTOR_PROFILED_SECONDS.name}
    # Nobody describes its model and the peak of its devices, and no rank reports a collective.
    absent |= {names.JOB_PEAK_TOKENS.name, names.JOB_COLLECTIVE.name}
    # Its budget is not evaluated yet.
    absent |= {names.SLO_BUDGET_REMAINING.name}
    # It has not ended, and did not come back from anything.
    absent |= {names.JOB_OUTCOME.name, names.JOB_DURATION.name, names.JOB_RECOVERY.name}
    missing = {
        name for name in DECLARED if not name.startswith(OTHERS_EXPORT)
    } - labels_by_name.keys()
    assert missing == absent, "declared for the collector and never exported"


def test_series_per_job_are_bounded(busy: Service) -> None:
    job_series = [key for key in series(families(busy)) if JOB in key]
    assert 40 < len(job_series) <= LIMIT
    stragglers = [key for key in job_series if key[0] == names.STRAGGLER_RANK.name]
    assert len(stragglers) == metrics.STRAGGLER_SLOTS


def test_values_are_right(busy: Service) -> None:
    series_values = series(families(busy))
    assert series_values[(names.JOB_STEP.name, JOB)] == 39
    assert series_values[(names.JOB_RUNNING.name, JOB)] == 1
    assert series_values[(names.JOB_TOKENS.name, JOB)] == 40 * 16 * 100
    assert series_values[(names.INCIDENT_OPEN.name, JOB, "straggler")] == 6
    assert series_values[(names.INCIDENT_OPEN.name, JOB, "hang")] == 0
    assert series_values[(names.JOB_INFO.name, "0", "experiment", JOB, "16")] == 1
    assert series_values[(names.CHECKPOINTS.name, JOB, "verified")] == 1
    assert series_values[(names.CHECKPOINTS.name, JOB, "failed")] == 2
    assert series_values[(names.CHECKPOINT_VERIFIED_STEP.name, JOB)] == 2
    assert series_values[(names.CHECKPOINT_FAILURES_IN_A_ROW.name, JOB)] == 2
    assert series_values[(f"{names.STEP_DURATION.name}_count", JOB)] == 40
    assert series_values[(f"{names.STEP_DURATION.name}_bucket", JOB, "0.2")] == 20
    assert series_values[(names.COLLECTOR_SEGMENTS.name, "accepted")] == 13


def test_what_its_devices_could_train_on_is_beside_what_they_do(service: Service) -> None:
    service.receive(body(with_facts(run_segments(40), (FLOPS, "1000"), (PEAK, "1e6"))))
    service.receive(
        body(with_facts(run_segments(40, job="too-little"), (FLOPS, "1000"), (PEAK, "1e3")))
    )
    service.evaluate()
    series_values = series(families(service))
    # Four devices of 10^6 FLOP/s, of which a token takes 1,000.
    assert series_values[(names.JOB_PEAK_TOKENS.name, JOB)] == pytest.approx(4 * 1e6 / 1e3)
    assert (names.JOB_PEAK_TOKENS.name, "too-little") not in series_values, (
        "it trains on more than that"
    )


def test_device_time_adds_up_and_costs_what_the_rate_card_says(store: Store) -> None:
    rates = RateCard("USD", (Rate(date(2020, 1, 1), 3600.0),))
    objectives = read_objectives()._replace(rates=rates)
    service = Service(store, HandClock(13.0), objectives=objectives)
    service.receive(body(run_segments(40)))
    service.evaluate()
    series_values = series(families(service))
    spent = [value for key, value in series_values.items() if key[0] == names.DEVICE_SECONDS.name]
    assert series_values[(names.DEVICE_SECONDS.name, JOB, "productive")] > 0
    assert series_values[(names.JOB_COST.name, "USD", JOB)] == pytest.approx(sum(spent))


def test_tokens_that_no_rank_reports_are_unknown_not_zero(service: Service) -> None:
    for item in run_segments(20):
        item.tables[Kind.STEP]["tokens"] = 0
        service.receive(body([item]))
    service.evaluate()
    assert names.JOB_TOKENS.name not in {name for name, *_ in series(families(service))}
    job_state = service.job(JOB)
    assert job_state is not None
    view: Any = job_view.job_summary(*job_state, service.now())
    assert view["tokens_per_second"] is None
    assert ("tokens/s", "unknown") in status_text.pace_lines(view)


def test_before_the_first_step_its_number_is_unknown(service: Service) -> None:
    states = state_rows(range(2), 2, 1.0)
    states["stage"] = -1
    service.receive(body([segment(1, {Kind.RANK_STATE: states})]))
    job_state = service.job(JOB)
    assert job_state is not None
    view: Any = job_view.job_summary(*job_state, service.now())
    assert view["step"] is None
    assert [rank["stage"] for rank in view["ranks"]] == [None, None]


def test_what_is_not_known_is_absent(service: Service) -> None:
    service.receive(body([segment(1, {Kind.STEP: step_rows([0], [0])})]))
    service.evaluate()
    exported = {name for name, *_ in series(families(service))}
    unknown = {
        names.JOB_STEP,
        names.JOB_LOSS,
        names.JOB_TOKENS,
        names.PHASE_SECONDS,
        names.COLLECTIVE_EXPOSED_SECONDS,
        names.SLO_BUDGET_REMAINING,
        names.TELEMETRY_COVERAGE,
        names.CHECKPOINT_VERIFIED_STEP,
        names.STRAGGLER_RANK,
        names.SLI_GOOD,
        names.SECONDS_SINCE_FAILURE,
        names.CHECKPOINT_FAILURES_IN_A_ROW,
        names.JOB_COST,
    }
    assert exported.isdisjoint(metric.name for metric in unknown)
    assert names.JOB_RUNNING.name in exported


def ended(service: Service, clock: HandClock, event: LifecycleEvent, attempt: int = 0) -> None:
    """All four ranks of an attempt end like that, as their agent hears it now."""
    rows = lifecycle_rows(event, range(4), time_s=clock.monotonic)
    rows["text"] = b"ValueError: no" if event is LifecycleEvent.FAILURE else b""
    states = state_rows(range(4), 4, clock.monotonic)
    reported = {Kind.LIFECYCLE: rows, Kind.RANK_STATE: states}
    service.receive(body([segment(900 + attempt, reported, attempt=attempt)]))
    service.evaluate()


def since_failure(service: Service) -> float | None:
    return series(families(service)).get((names.SECONDS_SINCE_FAILURE.name, JOB))


def test_a_failed_job_counts_the_seconds_until_a_new_attempt_begins(
    service: Service, clock: HandClock, store: Store
) -> None:
    service.receive(body(run_segments(12)))
    service.evaluate()
    assert since_failure(service) is None, "it runs"
    ended(service, clock, LifecycleEvent.FAILURE)
    assert since_failure(service) == 0.0
    clock.advance(100.0)
    late_tables = {Kind.RANK_STATE: state_rows(range(4), 4, clock.monotonic)}
    service.receive(body([segment(940, late_tables)]))
    service.evaluate()
    assert since_failure(service) == 100.0, "its agent still speaks of it"
    clock.advance(300.0)
    service.evaluate()
    assert since_failure(service) == 400.0
    restarted = Service(store, clock)
    restarted.evaluate()
    assert since_failure(restarted) == 300.0, (
        "after a restart of the collector, since it last received"
    )
    states = {Kind.RANK_STATE: state_rows(range(4), 4, clock.monotonic)}
    service.receive(body([segment(950, states, attempt=1)]))
    service.evaluate()
    assert since_failure(service) is None
    ended(service, clock, LifecycleEvent.FAILURE, attempt=1)
    clock.advance(7.0)
    assert since_failure(service) == 7.0, "of the newest attempt"
    clock.advance(ABANDONED_SECONDS)
    assert since_failure(service) is None, "given up"


@pytest.mark.parametrize("preempted", [False, True])
def test_a_job_that_ended_in_order_has_not_failed(
    service: Service, clock: HandClock, preempted: bool
) -> None:
    service.receive(body(run_segments(12)))
    if preempted:
        notice = lifecycle_rows(LifecycleEvent.PREEMPTION, range(4), time_s=clock.monotonic)
        service.receive(body([segment(800, {Kind.LIFECYCLE: notice})]))
    ended(service, clock, LifecycleEvent.FAILURE if preempted else LifecycleEvent.FINISH)
    clock.advance(600.0)
    service.evaluate()
    assert series(families(service))[(names.JOB_RUNNING.name, JOB)] == 0
    assert since_failure(service) is None


def test_a_job_of_which_one_rank_failed_waits_for_the_others(
    service: Service, clock: HandClock
) -> None:
    service.receive(body(run_segments(12)))
    rows = lifecycle_rows(LifecycleEvent.FAILURE, [1], time_s=clock.monotonic)
    rows["text"] = b"ValueError: no"
    service.receive(body([segment(900, {Kind.LIFECYCLE: rows})]))
    clock.advance(10.0)
    service.evaluate()
    assert since_failure(service) is None, "the hang alert speaks while ranks are left"


@pytest.mark.parametrize(
    ("ends", "in_a_row"),
    [
        ([{}], None),
        ([{10: None}], None),
        ([{10: True}], 0),
        ([{10: True, 20: False}], 1),
        ([{10: True, 20: False, 30: None, 40: False}], 2),
        ([{10: False, 20: False}], 2),
        ([{10: True, 20: False, 30: False, 40: True}], 0),
        ([{10: True, 20: True}, {20: False}], 1),
        ([{10: True, 20: False}, {}, {20: False}, {20: True}], 0),
    ],
)
def test_bad_checkpoints_count_until_one_verifies(
    ends: list[dict[int, bool | None]], in_a_row: int | None
) -> None:
    attempts = [
        {step: Checkpoint(step, verified=verified) for step, verified in checkpoints.items()}
        for checkpoints in ends
    ]
    assert failures_in_a_row(attempts) == in_a_row


def test_jobs_over_the_cap_are_counted_aloud(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_JOBS", 3)
    for number in range(8):
        service.receive(body(run_segments(5, job=f"job-{number}")))
    service.evaluate()
    series_values = series(families(service))
    shown = {key[1] for key in series_values if key[0] == names.JOB_RUNNING.name}
    assert shown == {"job-7", "job-6", "job-5"}
    assert series_values[(names.COLLECTOR_JOBS_CAPPED.name,)] == 5
    assert series_values[(names.COLLECTOR_JOBS.name,)] == 8


def test_a_budget_that_burns_asks_for_somebody_while_it_does(store: Store) -> None:
    """Forty-two minutes of a hang are 2 % of what a month may lose at 95 %, and forty are not."""
    site = Site(store, HandClock())
    goodput = next(slo for slo in default_slos() if slo.name == "goodput")
    site.service.site_objectives.replace(Objectives({"goodput": goodput}))
    site.run(1200, every=10)
    site.clock.advance(39.5 * 60)
    site.run(5, moved_ago=39.5 * 60)
    key = (names.SLO_BURN_RATE.name, JOB, "page", "goodput")
    assert key not in series(families(site.service))
    site.clock.advance(150.0)
    site.run(5, moved_ago=42.0 * 60)
    burn = series(families(site.service))[key]
    assert burn == pytest.approx(42 / 60 * 20, rel=0.02)
    answer = site.service.job(JOB)
    assert answer is not None
    (slo,) = slo_view.job_slos(*answer, site.service.now())["slos"]
    assert [alert["severity"] for alert in slo["burning"]] == ["page"]
    shown = in_full({"job": JOB, "device_seconds": {}}, {**slo, "generations": []})
    assert "  page     2% of the budget or more went in 60.0 min: " in shown
    site.run(400, every=10)
    assert key not in series(families(site.service)), "the short window is good again"
