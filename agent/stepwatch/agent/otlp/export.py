"""Sends node metrics over OTLP/HTTP periodically, in its own thread.

The agent's loop is not involved: the thread reads the newest readings, as a `/metrics` scrape
does. A failed request is not kept: the next one has newer values, and its counters are cumulative.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator

from stepwatch import signals
from stepwatch.agent.supervision import SupervisedThread
from stepwatch.signals import traces
from stepwatch.signals.clock import Clock
from stepwatch.signals.errors import ConfigurationError

from .conventions import COUNTER, GAUGE
from .points import Point

try:
    from google.protobuf.message import DecodeError
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceResponse,
    )
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Metric,
        MetricExportResult,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from .session import BoundedSession
except ImportError as error:
    raise ConfigurationError(
        f"metrics over OTLP need the OpenTelemetry SDK ({error}); pip install 'stepwatch[traces]'"
    ) from error

logger = logging.getLogger(__name__)

ENV_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
"""Milliseconds between two requests, as the SDK defines it."""
DEFAULT_SECONDS, LEAST_SECONDS = 60.0, 1.0
TIMEOUT_SECONDS = 10.0
"""Timeout for a request with the exporter's retries, unless a variable sets another one."""
_PATH = "/v1/metrics"
_SDK_LOGGER = "opentelemetry.exporter.otlp.proto.http.metric_exporter"


class MetricsExporter:
    """Send the result of `points` every `seconds` until `close`.

    `endpoint` is a base URL; with None the OTEL_EXPORTER_OTLP_* variables apply, which also name
    headers, certificates and timeout. `exported`, `dropped` and `rejected` count points.
    """

    def __init__(
        self,
        endpoint: str | None,
        node: str,
        points: Callable[[], list[Point]],
        clock: Clock,
        seconds: float | None = None,
    ) -> None:
        self.exported = self.dropped = self.rejected = 0
        self._points, self._clock = points, clock
        self._seconds = interval_seconds() if seconds is None else seconds
        self._resource = Resource(
            {
                "service.name": "stepwatch-agent",
                "service.namespace": traces.SERVICE_NAMESPACE,
                "service.version": signals.__version__,
                traces.NODE: node,
            }
        )
        self._down = False
        self._status = 0  # from the newest answer
        self._stopping = threading.Event()
        # The SDK logs every retry; the agent logs an outage once.
        logging.getLogger(_SDK_LOGGER).setLevel(logging.CRITICAL)
        url = None if endpoint is None else endpoint.rstrip("/").removesuffix(_PATH) + _PATH
        self._exporter = OTLPMetricExporter(url, session=BoundedSession(self._look_at))
        self.thread = SupervisedThread("otlp-metrics", self._run, clock)
        self.thread.start()

    def close(self) -> None:
        """End the thread within two seconds; pending points are dropped."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._exporter.shutdown()
            self.thread.join(2.0)

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            points = self._points()
            if points:
                self._send(points)

    def _send(self, points: list[Point]) -> None:
        data = metrics_data(points, self._resource, self._clock.wall_ns())
        self._status = 0
        sent = self._exporter.export(data) is MetricExportResult.SUCCESS
        if sent and 200 <= self._status < 300:  # the SDK treats a redirect as a success
            self.exported += len(points)
            if self._down:
                logger.info("the OTLP receiver takes metrics again")
            self._down = False
            return
        self.dropped += len(points)
        if not self._down and not self._stopping.is_set():
            logger.warning("the OTLP receiver takes no metrics; the rest of the agent continues")
        self._down = True

    def _look_at(self, status: int, body: bytes) -> None:
        """Count the points that the receiver rejected; they are not sent again."""
        self._status = status
        if status != 200:
            return
        answer = ExportMetricsServiceResponse()
        try:
            answer.ParseFromString(body)
        except DecodeError:  # some receivers answer in JSON or with nothing
            return
        self.rejected += max(0, answer.partial_success.rejected_data_points)


def interval_seconds() -> float:
    """Return the seconds between requests from the SDK's variable; its default if invalid."""
    try:
        seconds = float(os.environ.get(ENV_INTERVAL, "")) / 1000.0
    except ValueError:
        return DEFAULT_SECONDS
    return max(LEAST_SECONDS, seconds) if 0.0 < seconds < float("inf") else DEFAULT_SECONDS


def metrics_data(points: Iterable[Point], resource: Resource, now_ns: int) -> MetricsData:
    """Convert the points to the SDK's form, each metric once."""

    def kind(point: Point) -> tuple[str, str, str]:
        return point.name, point.instrument, point.unit

    groups = itertools.groupby(sorted(points, key=kind), key=kind)
    metrics = [_metric(*described, list(group), now_ns) for described, group in groups]
    scope = InstrumentationScope(traces.SERVICE_NAMESPACE, signals.__version__)
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _metric(name: str, instrument: str, unit: str, points: list[Point], now_ns: int) -> Metric:
    samples = list(_samples(points, now_ns))
    if instrument == GAUGE:
        return Metric(name, "", unit, Gauge(samples))
    total = Sum(samples, AggregationTemporality.CUMULATIVE, instrument == COUNTER)
    return Metric(name, "", unit, total)


def _samples(points: Iterable[Point], now_ns: int) -> Iterator[NumberDataPoint]:
    # Start 0 means unknown: driver and card counters begin when the driver loads.
    for point in points:
        yield NumberDataPoint(point.attributes, 0, now_ns, point.value)
