"""Snapshots of a job's state: a restart loads them instead of folding the whole log again.

    document = taken_apart(job)     while nothing changes the job; then, whenever there is time,
    data = packed(document, About(job.name, position, monotonic_s))
    about, document = unpacked(data)
    job = put_together(document, now_s - about.monotonic_s)

A snapshot describes itself and holds no code. Only the state version that wrote it can read it: a
snapshot with another version, or a damaged one, is replaced by folding the log.
"""

from stepwatch.collector.state.snapshot.frame import FORMAT, STATE_VERSION, About, packed, unpacked
from stepwatch.collector.state.snapshot.values import Document, put_together, taken_apart

__all__ = [
    "FORMAT",
    "STATE_VERSION",
    "About",
    "Document",
    "packed",
    "put_together",
    "taken_apart",
    "unpacked",
]
