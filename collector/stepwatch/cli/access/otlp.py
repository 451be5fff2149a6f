"""The OTLP/HTTP receiver that an option or OpenTelemetry's variables name."""

from __future__ import annotations

import logging
import os

from stepwatch.signals.errors import ConfigurationError, UsageError

logger = logging.getLogger(__name__)

VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


def checked_endpoint(url: str | None) -> str | None:
    """Return the URL of `--otlp`.

    Raises:
        UsageError: it is not a URL.
    """
    if url and not url.startswith(("http://", "https://")):
        raise UsageError(f"--otlp {url!r} is not a URL; pass http://HOST:4318")
    return url or None


def is_sent(url: str | None, signal: str) -> bool:
    """Return whether TRACES, METRICS or LOGS have a receiver.

    OTEL_<signal>_EXPORTER=none turns a signal off.
    """
    if os.environ.get(f"OTEL_{signal}_EXPORTER") == "none":
        return False
    variables = VARIABLE, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    return bool(url) or any(os.environ.get(name) for name in variables)


def skip(url: str | None, sent: str, error: ConfigurationError) -> None:
    """Warn that nothing is sent if only a variable asks for it: it may be for other programs.

    Raises:
        ConfigurationError: `--otlp` asks for it.
    """
    if url is not None:
        raise error
    logger.warning("no %s over OTLP: %s", sent, error)
