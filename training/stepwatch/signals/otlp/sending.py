"""Sends groups of points over OTLP/HTTP at an interval.

A failed request is not kept: the next one has newer values, and its counters are cumulative.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator

from stepwatch import signals
from stepwatch.signals import traces
from stepwatch.signals.errors import ConfigurationError

from .points import COUNTER, GAUGE, HISTOGRAM, Distribution, Group, Point

try:
    from google.protobuf.message import DecodeError
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceResponse,
    )
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        MetricExportResult,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from .resource import resource_of
    from .session import BoundedSession
except ImportError as error:
    raise ConfigurationError(
        f"metrics over OTLP need the OpenTelemetry SDK ({error}); pip install 'stepwatch[traces]'"
    ) from error

logger = logging.getLogger(__name__)

ENV_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
"""Milliseconds between two requests, as the SDK defines it."""
DEFAULT_SECONDS, LEAST_SECONDS = 60.0, 1.0
MOST_POINTS = 2048
"""Maximum per request: about 1 MB, below every receiver's default limit."""
_PATH = "/v1/metrics"
_SDK_LOGGER = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
_TRANSIENT = (0, 408, 429)
"""Statuses, besides 5xx, after which the round's remaining requests would fail, too."""


class MetricsSender:
    """Send the result of `groups` every `seconds` until `close`.

    `endpoint` is a base URL; with None the OTEL_EXPORTER_OTLP_* variables apply, which also name
    headers, certificates and timeout. `exported`, `dropped` and `rejected` count points.
    """

    def __init__(
        self,
        endpoint: str | None,
        groups: Callable[[], Iterable[Group]],
        seconds: float | None = None,
    ) -> None:
        self.exported = self.dropped = self.rejected = 0
        self._groups = groups
        self._seconds = interval_seconds() if seconds is None else seconds
        self._down = False
        self._status = 0  # from the newest answer
        self._stopping = threading.Event()
        # The SDK logs every retry; an outage is logged once here.
        logging.getLogger(_SDK_LOGGER).setLevel(logging.CRITICAL)
        url = None if endpoint is None else endpoint.rstrip("/").removesuffix(_PATH) + _PATH
        self._exporter = OTLPMetricExporter(url, session=BoundedSession(self._look_at))

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._stopping.is_set()

    def run(self) -> None:
        """Send until `close`."""
        while not self._stopping.wait(self._seconds):
            self.send()

    def send(self) -> None:
        """Send all groups once; the first outage drops the rest of them."""
        is_up = True
        for request in _requests(self._groups()):
            if is_up:
                is_up = self._send(request)
            else:
                self.dropped += _count(request)

    def close(self) -> None:
        """End `run` after the current request; pending points are dropped."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._exporter.shutdown()

    def _send(self, groups: list[Group]) -> bool:
        """Send one request; return whether the receiver answers."""
        self._status = 0
        sent = self._exporter.export(metrics_data(groups)) is MetricExportResult.SUCCESS
        if sent and 200 <= self._status < 300:  # the SDK treats a redirect as a success
            self.exported += _count(groups)
            if self._down:
                logger.info("the OTLP receiver takes metrics again")
            self._down = False
            return True
        self.dropped += _count(groups)
        if not self._down and not self._stopping.is_set():
            logger.warning("the OTLP receiver takes no metrics; everything else continues")
        self._down = True
        return self._status not in _TRANSIENT and self._status < 500

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


def _requests(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield the groups in parts with at most `MOST_POINTS` points each."""
    request: list[Group] = []
    for group in groups:
        points = group.points
        while points:
            room = MOST_POINTS - _count(request)
            request.append(group._replace(points=points[:room]))
            points = points[room:]
            if _count(request) == MOST_POINTS:
                yield request
                request = []
    if request:
        yield request


def _count(groups: Iterable[Group]) -> int:
    return sum(len(group.points) for group in groups)


def metrics_data(groups: Iterable[Group]) -> MetricsData:
    """Convert the groups to the SDK's form, each metric of a resource once."""
    scope = InstrumentationScope(traces.SERVICE_NAMESPACE, signals.__version__)
    return MetricsData(
        [
            ResourceMetrics(
                resource_of(group.resource), [ScopeMetrics(scope, [*_metrics(group)], "")], ""
            )
            for group in groups
        ]
    )


def _metrics(group: Group) -> Iterator[Metric]:
    def kind(point: Point) -> tuple[str, str, str]:
        return point.name, point.instrument, point.unit

    for described, points in itertools.groupby(sorted(group.points, key=kind), key=kind):
        yield _metric(*described, list(points), group.wall_ns)


def _metric(name: str, instrument: str, unit: str, points: list[Point], now_ns: int) -> Metric:
    if instrument == HISTOGRAM:
        cells = [_cells(point, now_ns) for point in points]
        return Metric(name, "", unit, Histogram(cells, AggregationTemporality.CUMULATIVE))
    # Start 0 means unknown: driver and card counters begin when the driver loads.
    samples = [NumberDataPoint(point.attributes, 0, now_ns, point.value) for point in points]
    if instrument == GAUGE:
        return Metric(name, "", unit, Gauge(samples))
    total = Sum(samples, AggregationTemporality.CUMULATIVE, instrument == COUNTER)
    return Metric(name, "", unit, total)


def _cells(point: Point, now_ns: int) -> HistogramDataPoint:
    value = point.value
    assert isinstance(value, Distribution)
    return HistogramDataPoint(
        attributes=point.attributes,
        start_time_unix_nano=0,
        time_unix_nano=now_ns,
        count=sum(value.counts),
        sum=value.sum,
        bucket_counts=value.counts,
        explicit_bounds=value.bounds,
        min=None,
        max=None,
    )
