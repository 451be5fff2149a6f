"""Trace ids and attribute names: a span's subject determines its id.

An id is a hash over job, attempt, step, rank and name. So logs, exemplars and spans agree without
communication, and records that are sent twice produce the same spans twice.
"""

from __future__ import annotations

import hashlib

SERVICE_NAMESPACE = "stepwatch"

# Resource attributes; the job is `service.name`.
JOB = "stepwatch.job"
ATTEMPT = "stepwatch.attempt"
NODE = "host.name"

# Span attributes; in seconds and bytes, as everywhere.
RANK = "stepwatch.rank"
STEP = "stepwatch.step"
REASONS = "stepwatch.reasons"
"""Reasons for tracing a step."""
AGGREGATED = "stepwatch.aggregated"
"""The span's length is a sum over the step."""
START_MEASURED = "stepwatch.start_measured"
"""False if spans are laid end to end because only their lengths are known."""
TOKENS = "stepwatch.tokens"
MICROBATCHES = "stepwatch.microbatches"
LOSS = "stepwatch.loss"
GRAD_NORM = "stepwatch.grad_norm"
GROUP = "stepwatch.collective.group"
COUNT = "stepwatch.collective.count"
COLLECTIVE_BYTES = "stepwatch.collective.bytes"
LONGEST_SECONDS = "stepwatch.collective.longest_seconds"
CHECKPOINT_BYTES = "stepwatch.checkpoint.bytes"
RESUMED_FROM = "stepwatch.resumed_from_step"
DETAIL = "stepwatch.detail"


def trace_id(job: str, attempt: int, step: int) -> int:
    """Return the trace id for one step in one attempt: 128 bits, never 0; in hex, 32 digits."""
    return _hashed(16, job, attempt, step)


def span_id(job: str, attempt: int, step: int, rank: int, name: str, index: int = 0) -> int:
    """Return one span's id: 64 bits, never 0; `index` separates equal names; in hex, 16 digits.

    The root span of a rank's step is `span_id(job, attempt, step, rank, "step")`.
    """
    return _hashed(8, job, attempt, step, rank, name, index)


def _hashed(size: int, *parts: str | int) -> int:
    text = "\0".join(map(str, parts)).encode()
    digest = hashlib.blake2b(text, digest_size=size, person=b"stepwatch.trace").digest()
    return int.from_bytes(digest, "big") or 1
