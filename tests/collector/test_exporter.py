"""`/metrics`: exactly the declared names and labels, nothing unknown, bounded per job."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.collector import exporter
from stepwatch.collector.exporter import JobExporter
from stepwatch.collector.service import Service
from stepwatch.signals import names
from stepwatch.signals.records import CheckpointEvent, Kind

from .made import JOB, HandClock, body, checkpoint_rows, run_segments, segment, step_rows

DECLARED = {name: metric for metric in names.METRICS for name in metric.series_names}
OTHERS_EXPORT = ("stepwatch_node_", "stepwatch_agent_")
LIMIT = 80


def families(service: Service) -> list[Family]:
    """The metrics as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(JobExporter(service))
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


def series(found: Iterable[Family]) -> dict[tuple[str, ...], float]:
    """Value by (name, label values in order of name)."""
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in found
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
    seen: dict[str, set[tuple[str, ...]]] = {}
    for family in families(busy):
        assert family.documentation
        for sample in family.samples:
            labels = {key for key in sample.labels if key != "le"}
            assert sample.name in DECLARED, sample.name
            assert labels == set(DECLARED[sample.name].labels), sample.name
            seen.setdefault(sample.name, set())
    missing = {name for name in DECLARED if not name.startswith(OTHERS_EXPORT)} - seen.keys()
    assert missing == set(), "declared for the collector and never exported"


def test_series_per_job_are_bounded(busy: Service) -> None:
    mine = [key for key in series(families(busy)) if JOB in key]
    assert 40 < len(mine) <= LIMIT
    stragglers = [key for key in mine if key[0] == names.STRAGGLER_RANK.name]
    assert len(stragglers) == exporter.STRAGGLER_SLOTS


def test_values_are_right(busy: Service) -> None:
    found = series(families(busy))
    assert found[(names.JOB_STEP.name, JOB)] == 39
    assert found[(names.JOB_RUNNING.name, JOB)] == 1
    assert found[(names.JOB_TOKENS.name, JOB)] == 40 * 16 * 100
    assert found[(names.INCIDENT_OPEN.name, JOB, "straggler")] == 6
    assert found[(names.INCIDENT_OPEN.name, JOB, "hang")] == 0
    assert found[(names.JOB_INFO.name, "0", "experiment", JOB, "16")] == 1
    assert found[(names.CHECKPOINTS.name, JOB, "verified")] == 1
    assert found[(names.CHECKPOINTS.name, JOB, "failed")] == 2
    assert found[(names.CHECKPOINT_VERIFIED_STEP.name, JOB)] == 2
    assert found[(f"{names.STEP_DURATION.name}_count", JOB)] == 40
    assert found[(f"{names.STEP_DURATION.name}_bucket", JOB, "0.2")] == 20
    assert found[(names.COLLECTOR_SEGMENTS.name, "accepted")] == 13


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
    }
    assert exported.isdisjoint(metric.name for metric in unknown)
    assert names.JOB_RUNNING.name in exported


def test_jobs_over_the_cap_are_counted_aloud(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "MAX_JOBS", 3)
    for number in range(8):
        service.receive(body(run_segments(5, job=f"job-{number}")))
    service.evaluate()
    found = series(families(service))
    shown = {key[1] for key in found if key[0] == names.JOB_RUNNING.name}
    assert shown == {"job-7", "job-6", "job-5"}
    assert found[(names.COLLECTOR_JOBS_CAPPED.name,)] == 5
    assert found[(names.COLLECTOR_JOBS.name,)] == 8
