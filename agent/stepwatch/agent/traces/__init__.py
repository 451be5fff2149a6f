"""Traces made from records after the fact: the rank itself pays nothing for a span.

`choice` says which steps, `steps` and `events` turn records into spans, `export` sends them over
OTLP/HTTP, and `tracer` is what the agent holds. Only `export` needs the OpenTelemetry SDK.
"""

DEFAULT_EVERY = 100
"""Steps per sampled one."""
