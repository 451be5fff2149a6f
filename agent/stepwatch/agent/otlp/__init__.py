"""Metrics of the node over OTLP/HTTP, by the names of OpenTelemetry's semantic conventions."""

from __future__ import annotations

from typing import NamedTuple


class OtlpOptions(NamedTuple):
    """Where metrics go, and the seconds between two requests.

    Without an `endpoint` the OTEL_EXPORTER_OTLP_* variables say where, without `seconds`
    OTEL_METRIC_EXPORT_INTERVAL how often.
    """

    endpoint: str | None
    seconds: float | None = None
