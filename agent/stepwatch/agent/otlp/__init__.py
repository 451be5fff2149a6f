"""Node metrics over OTLP/HTTP, named by OpenTelemetry's semantic conventions."""

from __future__ import annotations

from typing import NamedTuple


class OtlpOptions(NamedTuple):
    """The metrics endpoint, and the seconds between two requests.

    Without `endpoint` the OTEL_EXPORTER_OTLP_* variables name it; without `seconds`
    OTEL_METRIC_EXPORT_INTERVAL sets the interval.
    """

    endpoint: str | None
    seconds: float | None = None
