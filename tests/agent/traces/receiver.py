"""A real OTLP/HTTP receiver on a free port, in the moods that receivers have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

Mood = tuple[int, bytes]
"""Status and body of one answer."""


class Received(NamedTuple):
    """One span with the attributes of its resource, both as plain values."""

    resource: dict[str, Any]
    span: Any
    attributes: dict[str, Any]

    @property
    def key(self) -> tuple[bytes, bytes]:
        return self.span.trace_id, self.span.span_id

    @property
    def seconds(self) -> float:
        return float(self.span.end_time_unix_nano - self.span.start_time_unix_nano) / 1e9


class Value(NamedTuple):
    """One point of one metric with the attributes of its resource, as plain values."""

    resource: dict[str, Any]
    metric: Any
    point: Any
    attributes: dict[str, Any]

    @property
    def value(self) -> float:
        return float(getattr(self.point, self.point.WhichOneof("value")))


class Logged(NamedTuple):
    """One log record with the attributes of its resource, both as plain values."""

    resource: dict[str, Any]
    record: Any
    attributes: dict[str, Any]


class Receiver:
    """What came in so far; `moods` are answers to give before the good ones."""

    def __init__(self, moods: list[Mood]) -> None:
        self.moods = moods
        self.requests = 0
        self.paths: set[str] = set()
        self.taken: list[Received] = []
        self.values: list[Value] = []
        self.logs: list[Logged] = []
        self.headers: list[dict[str, str]] = []
        self.hold = threading.Event()
        self.hold.set()
        self.url = ""

    def answer(self, path: str, body: bytes) -> Mood:
        self.hold.wait(30)
        self.requests += 1
        self.paths.add(path)
        if self.moods:
            return self.moods.pop(0)
        if path == "/v1/metrics":
            self.values.extend(_values(ExportMetricsServiceRequest.FromString(body)))
            return 200, ExportMetricsServiceResponse().SerializeToString()
        if path == "/v1/logs":
            self.logs.extend(_logged(ExportLogsServiceRequest.FromString(body)))
            return 200, ExportLogsServiceResponse().SerializeToString()
        self.taken.extend(_received(ExportTraceServiceRequest.FromString(body)))
        return 200, ExportTraceServiceResponse().SerializeToString()


@contextmanager
def receiver(*moods: Mood) -> Iterator[Receiver]:
    """A receiver that listens until the block ends."""
    new_receiver = Receiver(list(moods))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            new_receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
            status, answer = new_receiver.answer(self.path, body)
            self.send_response(status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    new_receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield new_receiver
    finally:
        new_receiver.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()


def partly_refused(count: int) -> Mood:
    """An answer that says that `count` spans were not taken."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = count
    answer.partial_success.error_message = "too old"
    return 200, answer.SerializeToString()


def _received(request: Any) -> Iterator[Received]:
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Received(resource, span, _plain(span.attributes))


def _logged(request: Any) -> Iterator[Logged]:
    for group in request.resource_logs:
        resource = _plain(group.resource.attributes)
        for record in (record for scope in group.scope_logs for record in scope.log_records):
            yield Logged(resource, record, _plain(record.attributes))


def _values(request: Any) -> Iterator[Value]:
    for group in request.resource_metrics:
        resource = _plain(group.resource.attributes)
        for metric in (metric for scope in group.scope_metrics for metric in scope.metrics):
            for point in getattr(metric, metric.WhichOneof("data")).data_points:
                yield Value(resource, metric, point, _plain(point.attributes))


def points_refused(count: int) -> Mood:
    """An answer that says that `count` points were not taken."""
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = count
    answer.partial_success.error_message = "too many series"
    return 200, answer.SerializeToString()


def records_refused(count: int) -> Mood:
    """An answer that says that `count` log records were not taken."""
    answer = ExportLogsServiceResponse()
    answer.partial_success.rejected_log_records = count
    return 200, answer.SerializeToString()


def _plain(attributes: Any) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in attributes}


def _value(value: Any) -> Any:
    if value.WhichOneof("value") == "array_value":
        return tuple(_value(item) for item in value.array_value.values)
    return getattr(value, value.WhichOneof("value"))
