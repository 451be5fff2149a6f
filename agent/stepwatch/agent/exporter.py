"""The agent's `/metrics`, for this node only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, Metric

from stepwatch.agent.devices.exported import device_gauges
from stepwatch.agent.isolation.readings import Readings
from stepwatch.agent.non_finite import NonFinite
from stepwatch.agent.probes import Gauge
from stepwatch.agent.relay.sender import Sender
from stepwatch.agent.rings.bounds import UNREAD_REASONS
from stepwatch.agent.rings.ended import EndedRings
from stepwatch.agent.rings.process_exits import ProcessExits
from stepwatch.agent.rings.tail import Tail
from stepwatch.agent.spool import Spool
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.agent.survival import SurvivedErrors
from stepwatch.agent.traces.traced import Traced
from stepwatch.agent.traces.tracer import Sink, Tracer
from stepwatch.signals import names
from stepwatch.signals.plain_text import plain_line

if TYPE_CHECKING:
    from stepwatch.agent.otlp.export import MetricsExporter


class NodeView(Protocol):
    """The running agent as the exporter reads it."""

    node: str
    tail: Tail
    ended_rings: EndedRings
    errors: SurvivedErrors
    non_finite: NonFinite
    spool: Spool
    sender: Sender
    exits: ProcessExits
    readings: Readings
    tracer: Tracer | None
    metrics: MetricsExporter | None

    @property
    def threads(self) -> Iterable[SupervisedThread]:
        """Threads that restart after an error."""
        ...


class NodeExporter:
    """A prometheus-client collector over a running agent."""

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield all node metrics; a missing reading is left out, not zero."""
        view = self._view
        node = [view.node]
        yield _counter(names.AGENT_RECORDS, node, view.tail.records_read)
        yield _counter(names.AGENT_OVERRUNS, node, view.tail.overruns)
        yield self._unread_rings()
        yield _gauge(names.AGENT_ENDED_RINGS, node, len(view.ended_rings))
        yield self._survived()
        yield self._non_finite()
        yield from self._sending()
        if view.tracer is not None:
            yield _sent(names.AGENT_SPANS, view.node, view.tracer.sink)
            yield from _traced(view.node, view.tracer)
        if view.metrics is not None:
            yield _sent(names.AGENT_OTLP_POINTS, view.node, view.metrics)
        yield from self._probes()

    def _unread_rings(self) -> GaugeMetricFamily:
        family = _family(names.AGENT_RINGS_UNREAD)
        for reason in UNREAD_REASONS:
            family.add_metric([self._view.node, reason], self._view.tail.bounds.unread[reason])
        return family

    def _survived(self) -> CounterMetricFamily:
        metric = names.AGENT_OS_ERRORS
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for error, count in sorted(self._view.errors.counts.items()):
            family.add_metric([self._view.node, error], count)
        return family

    def _non_finite(self) -> CounterMetricFamily:
        metric = names.NODE_RANK_NON_FINITE
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for job, count in sorted(self._view.non_finite.counts.items()):
            family.add_metric([self._view.node, job], count)
        return family

    def _sending(self) -> Iterator[Metric]:
        spool, sender, node = self._view.spool, self._view.sender, [self._view.node]
        yield _counter(names.AGENT_SPOOL_DROPPED, node, spool.dropped)
        yield _gauge(names.AGENT_SPOOL_BYTES, node, spool.waiting_bytes)
        yield _gauge(names.AGENT_SPOOL_SEGMENTS, node, len(spool))
        yield _gauge(names.AGENT_HELD_SEGMENTS, node, spool.held_segments)
        yield _gauge(names.AGENT_UNREADABLE_SEGMENTS, node, spool.unreadable)
        yield _counter(names.AGENT_REFUSED, node, sender.relay.refused)
        yield _counter(names.AGENT_SEND_FAILURES, node, sender.relay.failures)
        yield self._problem()
        yield self._threads()

    def _problem(self) -> GaugeMetricFamily:
        family, problem = _family(names.AGENT_COLLECTOR_PROBLEM), self._view.sender.relay.problem
        if problem is not None:
            family.add_metric([self._view.node, problem.reason], 1.0)
        return family

    def _threads(self) -> CounterMetricFamily:
        metric = names.AGENT_THREAD_FAILURES
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for thread in self._view.threads:
            family.add_metric([self._view.node, thread.name], thread.failures)
        return family

    def _probes(self) -> Iterator[Metric]:
        node, readings = self._view.node, self._view.readings
        up, unknown = _family(names.PROBE_UP), _family(names.PROBE_UNKNOWN)
        for probe, state in sorted(readings.up.items()):
            up.add_metric([node, probe], float(state))
        for probe, reason in sorted(readings.unknown.items()):
            unknown.add_metric([node, probe, plain_line(reason)], 1.0)
        yield up
        yield unknown
        yield self._crashes()
        yield self._facts()
        gauges = [gauge for gauges in list(readings.gauges.values()) for gauge in gauges]
        yield from self._families([*gauges, *device_gauges(readings.devices())])

    def _crashes(self) -> CounterMetricFamily:
        metric = names.PROBE_CRASHES
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for (probe, ended_by), count in sorted(self._view.readings.starter.crashes.items()):
            family.add_metric([self._view.node, probe, ended_by], count)
        return family

    def _families(self, gauges: Iterable[Gauge]) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for gauge in gauges:
            family = families.setdefault(gauge.metric.name, _family_of(gauge.metric))
            if gauge.value == gauge.value:
                family.add_metric([self._view.node, *map(plain_line, gauge.labels)], gauge.value)
        yield from families.values()

    def _facts(self) -> GaugeMetricFamily:
        family = _family(names.NODE_FACTS)
        present = self._view.readings.facts.present()
        counts = Counter((fact.name, fact.severity.value) for fact in present)
        for (fact, severity), count in sorted(counts.items()):
            family.add_metric([self._view.node, fact, severity], float(count))
        return family


def _sent(metric: names.Metric, node: str, sink: Sink | MetricsExporter) -> CounterMetricFamily:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for outcome in ("exported", "dropped", "rejected"):
        family.add_metric([node, outcome], getattr(sink, outcome))
    return family


def _traced(node: str, tracer: Tracer) -> Iterator[CounterMetricFamily]:
    """Yield traced steps; with OpenMetrics an exemplar links to one trace."""
    metrics = (names.AGENT_TRACED_STEPS, names.AGENT_TRACED_STEP_SECONDS)
    steps, seconds = (CounterMetricFamily(m.name, m.help, labels=m.labels) for m in metrics)
    for job, traced in tracer.traced:
        steps.add_metric([node, job], traced.steps)
        seconds.add_metric([node, job], traced.seconds, exemplar=_exemplar(traced))
    yield steps
    yield seconds


def _exemplar(traced: Traced) -> Exemplar | None:
    example = traced.example
    if example is None:
        return None
    labels = {"trace_id": example.trace_id, "rank": str(example.rank)}
    return Exemplar(labels, example.seconds, example.at_s)


def _family_of(metric: names.Metric) -> GaugeMetricFamily | CounterMetricFamily:
    if metric.kind is names.MetricKind.COUNTER:
        return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    return _family(metric)


def _family(metric: names.Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _gauge(metric: names.Metric, labels: list[str], value: float) -> GaugeMetricFamily:
    family = _family(metric)
    family.add_metric(labels, value)
    return family


def _counter(metric: names.Metric, labels: list[str], value: float) -> CounterMetricFamily:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    family.add_metric(labels, value)
    return family
