"""Job metrics reach a real OTLP/HTTP receiver, equal to a scrape, and delay no evaluation."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra `traces`")

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.metrics import JOB_METRICS
from stepwatch.collector.web.otlp.export import JobMetricsSender
from stepwatch.collector.web.otlp.points import CONVENTIONS, SLI_RATIO, attribute_of
from stepwatch.signals import names
from stepwatch.signals.otlp.points import GAUGE, Group, Point
from stepwatch.signals.otlp.sending import MOST_POINTS, MetricsSender
from tests.agent.traces.receiver import Receiver, Value, receiver
from tests.collector.made import JOB, body, run_segments
from tests.ports import free_port
from tests.waiting import until

EVERY = 0.05
SECRET = "s3cret-0f-a-vend0r"
Series = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture
def busy(service: Service) -> Service:
    """A job with a straggler."""
    service.receive(body(run_segments(60, excess={(2, "forward"): 0.2}, slow_from=30)))
    service.evaluate()
    return service


def sent_once(service: Service, endpoint: Receiver) -> dict[Series, Value]:
    """The values of one request round, by name and attributes."""
    sender = JobMetricsSender(service, endpoint.url, EVERY)
    sender.send()
    sender.close()
    return {
        (value.metric.name, tuple(sorted(value.attributes.items()))): value
        for value in endpoint.values
    }


def scraped(service: Service) -> Iterator[tuple[names.Metric, dict[str, str], float]]:
    """Each sample of a scrape that is about the job, histograms left out."""
    by_sample = {metric.name: metric for metric in names.METRICS}
    for answer in service.answers(JOB_METRICS):
        for sample in (sample for family in answer.value for sample in family.samples):
            if sample.name in by_sample and sample.name in CONVENTIONS:
                yield by_sample[sample.name], sample.labels, float(sample.value)


def test_every_value_equals_that_of_a_scrape(busy: Service) -> None:
    with receiver() as endpoint:
        received = sent_once(busy, endpoint)
    assert endpoint.paths == {"/v1/metrics"}
    samples = [*scraped(busy)]
    assert len(samples) > 60
    for metric, labels, value in samples:
        name, unit = CONVENTIONS[metric.name]
        attributes = {attribute_of(k): v for k, v in labels.items() if k != names.JOB}
        sent = received.pop((name, tuple(sorted(attributes.items()))))
        is_clock = metric in (names.SECONDS_WITHOUT_PROGRESS, names.LAST_RECORD)
        assert sent.metric.unit == unit and (is_clock or sent.value == value), name
        assert sent.metric.HasField("sum") == (metric.kind is names.MetricKind.COUNTER), name
    assert {name for name, _ in received} == {SLI_RATIO, "stepwatch.step.duration"}


def test_step_time_is_a_cumulative_histogram_of_all_steps(busy: Service) -> None:
    with receiver() as endpoint:
        sender = JobMetricsSender(busy, endpoint.url, EVERY)
        sender.send()
        sender.close()
    (value,) = [
        value for value in endpoint.values if value.metric.name == "stepwatch.step.duration"
    ]
    point, (job, _) = value.point, busy.jobs_now()[0][0]
    assert value.metric.histogram.aggregation_temporality == 2, "cumulative"
    assert point.count == sum(point.bucket_counts) == sum(job.totals.steps_on.values()) > 50
    assert point.sum == pytest.approx(job.totals.step_seconds)
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert list(point.explicit_bounds) == sorted(point.explicit_bounds)


def test_goodput_is_the_slis_value(busy: Service) -> None:
    with receiver() as endpoint:
        received = sent_once(busy, endpoint)
    of_goodput = (("stepwatch.sli", "goodput"),)
    good = received["stepwatch.sli.good_device_time", of_goodput].value
    total = received["stepwatch.sli.device_time", of_goodput].value
    assert 0.0 < received[SLI_RATIO, of_goodput].value == good / total <= 1.0


def test_the_job_is_the_resource_and_the_environment_names_the_cluster(
    busy: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "k8s.cluster.name=gpu-east,service.name=other,stepwatch.job=other"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", words)
    with receiver() as endpoint:
        sent_once(busy, endpoint)
    (resource,) = {tuple(sorted(value.resource.items())) for value in endpoint.values}
    assert dict(resource).items() >= {
        ("service.name", JOB),
        ("stepwatch.job", JOB),
        ("service.namespace", "stepwatch"),
        ("k8s.cluster.name", "gpu-east"),
    }


def test_an_unknown_value_is_not_sent(service: Service) -> None:
    service.receive(body(run_segments(1)))
    service.evaluate()
    with receiver() as endpoint:
        received = sent_once(service, endpoint)
    sent = {name for name, _ in received}
    assert "stepwatch.job.info" in sent
    assert not sent & {"stepwatch.job.recovery", "stepwatch.job.cost", "stepwatch.job.outcome"}
    assert not [name for name in sent if name.startswith("stepwatch.slo.burn")]


def test_no_job_is_no_request(service: Service) -> None:
    with receiver() as endpoint:
        assert sent_once(service, endpoint) == {}
    assert endpoint.requests == 0


def many(count: int, size: int) -> list[Group]:
    points = [Point("stepwatch.job.step", GAUGE, "{step}", {"n": str(n)}, n) for n in range(size)]
    return [Group({"service.name": f"job-{number}"}, points, 1) for number in range(count)]


def test_large_rounds_are_several_requests_and_lose_nothing() -> None:
    with receiver() as endpoint:
        sender = MetricsSender(endpoint.url, lambda: many(3, MOST_POINTS - 500), EVERY)
        sender.send()
        sender.close()
    sent = [(value.resource["service.name"], value.value) for value in endpoint.values]
    assert endpoint.requests == 3 and len(sent) == len({*sent}) == 3 * (MOST_POINTS - 500)
    assert (sender.exported, sender.dropped) == (len(sent), 0)


def test_one_refused_request_does_not_drop_the_next_ones() -> None:
    with receiver((400, b"")) as endpoint:
        sender = MetricsSender(endpoint.url, lambda: many(3, MOST_POINTS), EVERY)
        sender.send()
        sender.close()
    assert endpoint.requests == 3
    assert (sender.exported, sender.dropped) == (2 * MOST_POINTS, MOST_POINTS)


def test_an_outage_drops_the_round_and_is_logged_once_without_secrets(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    sender = MetricsSender(f"http://127.0.0.1:{free_port()}", lambda: many(3, MOST_POINTS), EVERY)
    sender.send()
    sender.send()
    sender.close()
    assert (sender.exported, sender.dropped) == (0, 6 * MOST_POINTS)
    assert len([line for line in caplog.messages if "takes no metrics" in line]) == 1
    assert SECRET not in caplog.text
    with receiver() as endpoint:
        again = MetricsSender(endpoint.url, lambda: many(1, 1), EVERY)
        again.send()
        again.close()
    assert endpoint.headers[0]["api-key"] == SECRET, "it is sent"


def test_an_outage_costs_one_request_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with receiver(*[(503, b"")] * 9) as endpoint:
        sender = MetricsSender(endpoint.url, lambda: many(3, MOST_POINTS), EVERY)
        sender.send()
        sender.close()
    assert (endpoint.requests, sender.dropped) == (1, 3 * MOST_POINTS)


def test_a_receiver_that_never_answers_delays_no_evaluation(busy: Service) -> None:
    with receiver() as endpoint:
        endpoint.hold.clear()
        sender = JobMetricsSender(busy, endpoint.url, EVERY)
        sender.start()
        until("a request to wait", lambda: endpoint.headers)
        before = busy.evaluation_failures
        for later in run_segments(80)[12:]:
            busy.receive(body([later]))
            busy.evaluate()
        assert sender.exported == 0 and busy.evaluation_failures == before
        endpoint.hold.set()
        until("points to be taken", lambda: sender.exported)
        sender.close()


def test_what_was_sent_is_counted_in_metrics(busy: Service) -> None:
    with receiver() as endpoint:
        sender = JobMetricsSender(busy, endpoint.url, EVERY)
        sender.send()
        sender.close()
    registry = CollectorRegistry()
    registry.register(sender)
    lines = generate_latest(registry).decode().splitlines()
    counts = f'{names.COLLECTOR_OTLP_POINTS.name}{{outcome="exported"}} {float(sender.exported)}'
    assert counts in lines and sender.exported == len(endpoint.values)
