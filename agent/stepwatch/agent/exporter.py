"""`/metrics` of the agent: this node only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from stepwatch.agent.probes.readings import Readings
from stepwatch.agent.relay import Relay
from stepwatch.agent.spool import Spool
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.agent.tail import Tail
from stepwatch.agent.traces.tracer import Tracer
from stepwatch.signals import names
from stepwatch.signals.records import UNKNOWN_FLOAT, Kind


class NodeView(Protocol):
    """What the exporter reads of a running agent."""

    node: str
    tail: Tail
    spool: Spool
    relay: Relay
    sender: SupervisedThread
    readings: Readings
    steps: dict[str, list[int]]
    tracer: Tracer | None


class NodeExporter:
    """A prometheus-client collector over a running agent."""

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of the node; a reading that is not there is left out, not zero."""
        view = self._view
        node = [view.node]
        yield _counter(names.AGENT_RECORDS, node, view.tail.records_read)
        yield _counter(names.AGENT_OVERRUNS, node, view.tail.overruns)
        yield _counter(names.AGENT_SPOOL_DROPPED, node, view.spool.dropped)
        yield _counter(names.AGENT_REFUSED, node, view.relay.rejected)
        yield _counter(names.AGENT_SEND_FAILURES, node, view.relay.failures)
        sender = view.sender
        yield _counter(names.AGENT_THREAD_FAILURES, [view.node, sender.name], sender.failures)
        yield _gauge(names.AGENT_SPOOL_BYTES, node, view.spool.waiting_bytes)
        yield _gauge(names.AGENT_SPOOL_SEGMENTS, node, len(view.spool))
        if view.tracer is not None:
            yield _spans(view.node, view.tracer)
        yield from self._probes()
        yield from self._host()
        yield from self._ranks()

    def _probes(self) -> Iterator[Metric]:
        node, readings = self._view.node, self._view.readings
        up, unknown = _family(names.PROBE_UP), _family(names.PROBE_UNKNOWN)
        for probe, state in sorted(readings.up.items()):
            up.add_metric([node, probe], float(state))
        for probe, reason in sorted(readings.unknown.items()):
            unknown.add_metric([node, probe, reason], 1.0)
        yield up
        yield unknown

    def _host(self) -> Iterator[Metric]:
        rows = self._view.readings.latest.get(Kind.HOST)
        if rows is None or not len(rows):
            return
        row, node = rows[-1], self._view.node
        pressure = _family(names.NODE_PRESSURE)
        for resource in ("cpu", "memory", "io"):
            value = float(row[f"{resource}_pressure_ratio"])
            if value == value:
                pressure.add_metric([node, resource], value)
        yield pressure
        yield _gauge(names.NODE_CPU_BUSY, [node], float(row["cpu_busy_ratio"]))
        yield _gauge(names.NODE_CPU_STEAL, [node], float(row["cpu_steal_ratio"]))
        known = row["memory_total_bytes"] > 0
        memory = float(row["memory_available_bytes"]) if known else UNKNOWN_FLOAT
        yield _gauge(names.NODE_MEMORY_AVAILABLE, [node], memory)

    def _ranks(self) -> Iterator[Metric]:
        # A copy of the reading thread's: the rings themselves may close while this one looks.
        count, lowest = _family(names.NODE_RANKS), _family(names.NODE_RANK_STEP_MIN)
        for job, steps in sorted(self._view.steps.items()):
            count.add_metric([self._view.node, job], len(steps))
            lowest.add_metric([self._view.node, job], min(steps))
        yield count
        yield lowest


def _spans(node: str, tracer: Tracer) -> CounterMetricFamily:
    metric, sink = names.AGENT_SPANS, tracer.sink
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for outcome in ("exported", "dropped", "rejected"):
        family.add_metric([node, outcome], getattr(sink, outcome))
    return family


def _family(metric: names.Metric) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _gauge(metric: names.Metric, labels: list[str], value: float) -> GaugeMetricFamily:
    family = _family(metric)
    if value == value:
        family.add_metric(labels, value)
    return family


def _counter(metric: names.Metric, labels: list[str], value: float) -> CounterMetricFamily:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    family.add_metric(labels, value)
    return family
