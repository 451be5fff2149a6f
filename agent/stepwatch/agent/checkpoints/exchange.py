"""A verification's path and options as JSON, for the process that verifies."""

from __future__ import annotations

from typing import Any

from .limits import Limits
from .options import Options
from .result import FileDigest


def options_document(path: str, options: Options) -> dict[str, Any]:
    """Return a path and options as JSON values."""
    return {
        "path": path,
        "timeout_s": options.timeout_s,
        "rate": options.rate,
        "digests": options.digests,
        "settle_seconds": options.limits.settle_seconds,
        "memory_bytes": options.limits.memory_bytes,
        "owner": options.owner,
        "expected": {name: [e.size, e.sha256] for name, e in options.expected.items()},
    }


def read_options(document: dict[str, Any]) -> tuple[str, Options]:
    """Return the path and the options of such a document."""
    options = Options(
        timeout_s=document["timeout_s"],
        rate=document["rate"],
        digests=document["digests"],
        expected={name: FileDigest(*entry) for name, entry in document["expected"].items()},
        limits=Limits(
            settle_seconds=document["settle_seconds"], memory_bytes=document["memory_bytes"]
        ),
        owner=document["owner"],
    )
    return document["path"], options
