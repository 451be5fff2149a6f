"""Sends spans over OTLP/HTTP in its own thread; an absent receiver only costs spans.

The SDK's batch processor and exporter do not store spans on disk. Here spans wait in a bounded
queue. A failed batch is tried again with a growing delay, then dropped. Both are counted. A batch
(HTTP 4xx) or part (partial success) that the receiver refuses must not be sent again, and is not.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from stepwatch.agent.traces.spans import Span
from stepwatch.signals import traces
from stepwatch.signals.errors import ConfigurationError

try:
    from google.protobuf.message import DecodeError
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    from stepwatch.signals.otlp.resource import resource_of
    from stepwatch.signals.otlp.session import BoundedSession
except ImportError as error:
    raise ConfigurationError(
        f"traces need the OpenTelemetry SDK ({error}); pip install 'stepwatch[traces]'"
    ) from error

logger = logging.getLogger(__name__)

QUEUE_SPANS = 20_000
"""About 10 MB; further spans are dropped while the queue is full."""
BATCH_SPANS = 512
"""The SDK's default batch size."""
TRIES = 4
"""Attempts per batch; the exporter retries transient errors for 10 s within each."""
FIRST_DELAY_SECONDS, _LONGEST_DELAY = 1.0, 15.0
_PATH = "/v1/traces"
_SDK_LOGGER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"

Batch = list[tuple[Resource, Span]]


class Exporter:
    """Accept spans from the agent's thread without blocking it.

    `endpoint` is a base URL; with None the OTEL_EXPORTER_OTLP_* variables apply, which also name
    headers, certificates and timeout.
    """

    def __init__(
        self,
        endpoint: str | None,
        *,
        queue_spans: int = QUEUE_SPANS,
        first_delay: float = FIRST_DELAY_SECONDS,
    ) -> None:
        self.exported = self.dropped = self.rejected = 0
        self._first_delay = first_delay
        self._waiting: queue.Queue[tuple[Resource, Span]] = queue.Queue(queue_spans)
        self._refused = False
        self._stopping = threading.Event()
        self._down = False
        # The SDK logs every retry; the agent logs an outage once.
        logging.getLogger(_SDK_LOGGER).setLevel(logging.CRITICAL)
        session = BoundedSession(self._look_at)
        url = None if endpoint is None else endpoint.rstrip("/").removesuffix(_PATH) + _PATH
        self._exporter = OTLPSpanExporter(url, session=session)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def put(self, resource: Mapping[str, Any], spans: Iterable[Span]) -> None:
        """Queue an attempt's spans; drop and count those that do not fit."""
        described = resource_of(resource)
        for span in spans:
            try:
                self._waiting.put_nowait((described, span))
            except queue.Full:
                self.dropped += 1

    def close(self) -> None:
        """Send queued spans, for at most two seconds."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join(2.0)
        self._exporter.shutdown()

    def _run(self) -> None:
        while True:
            batch = self._next()
            if batch:
                self._send(batch)
            elif self._stopping.is_set():
                return

    def _next(self) -> Batch:
        batch: Batch = []
        try:
            batch.append(self._waiting.get(timeout=0.2))
            while len(batch) < BATCH_SPANS:
                batch.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _send(self, batch: Batch) -> None:
        spans = [_readable(resource, span) for resource, span in batch]
        delay = self._first_delay
        for _ in range(TRIES):
            self._refused = False
            if self._exporter.export(spans) is SpanExportResult.SUCCESS:
                self.exported += len(spans)
                self._down = False
                return
            if not self._down:
                logger.warning("the trace receiver takes no spans; the rest of the agent continues")
            self._down = True
            if self._refused or self._stopping.wait(delay):
                break
            delay = min(delay * 2, _LONGEST_DELAY)
        self.dropped += len(spans)

    def _look_at(self, status: int, body: bytes) -> None:
        if status >= 400:
            self._refused = status < 500 and status not in (408, 429)
            return
        answer = ExportTraceServiceResponse()
        try:
            answer.ParseFromString(body)
        except DecodeError:  # some receivers answer in JSON or with nothing
            return
        self.rejected += answer.partial_success.rejected_spans


def _readable(resource: Resource, span: Span) -> ReadableSpan:
    # A tracer would generate its own ids and times; these come from the records.
    def context(span_id: int) -> SpanContext:
        return SpanContext(span.trace_id, span_id, False, TraceFlags(TraceFlags.SAMPLED))

    return ReadableSpan(
        span.name,
        context(span.span_id),
        parent=context(span.parent_id) if span.parent_id else None,
        resource=resource,
        attributes=span.attributes,
        events=[Event(moment.name, timestamp=moment.wall_ns) for moment in span.moments],
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(traces.SERVICE_NAMESPACE),
    )
