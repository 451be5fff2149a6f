"""Traces from records, made afterwards: a span costs the rank nothing.

`sampling` selects steps, `steps` and `events` turn records into spans, `export` sends them over
OTLP/HTTP, and `tracer` is the agent's entry point. Only `export` needs the OpenTelemetry SDK.
"""

DEFAULT_EVERY = 100
"""Number of steps per sampled step."""
