"""An exception's reason for a rank's end or a failed save: one line without secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator

from stepwatch.signals.names import Cause
from stepwatch.signals.secrets import known_secrets, without_secrets

_MOST_WORDS = 4096
"""Most characters of an exception to read: a record holds fewer."""
_MOST_LINKED = 16
_EXHAUSTED = (
    Cause.DISK_FULL,
    Cause.FILE_LIMIT,
    Cause.HOST_MEMORY,
    Cause.DEVICE_MEMORY,
    Cause.SHARED_MEMORY,
)
"""An exhausted resource is the cause, even if a later exception hides it."""


def words_of(failure: BaseException) -> str:
    """Return `ValueError: shard 17 is empty`; for a full disk or memory, the line that reports it.

    torch.save to a full disk raises `unexpected pos 704 vs 598` while it handles `[Errno 28]`, and
    DCP puts all ranks' tracebacks into its own exception's text.
    """
    exhausted = _exhausted(failure)
    text = exhausted if exhausted is not None else _line(failure)
    return without_secrets(text, known_secrets(os.environ))


def _exhausted(failure: BaseException) -> str | None:
    # Imported only when a rank fails: its patterns take a while to compile.
    from stepwatch.signals.exits import Weight, explain

    lines = [
        line.strip() for linked in _chain(failure) for line in _line(linked).splitlines() if line
    ]
    explained = explain(lines)
    if explained is None or explained.pattern.weight is not Weight.SPECIFIC:
        return None
    return explained.line if explained.pattern.cause in _EXHAUSTED else None


def _chain(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception, and every exception that led to it or was being handled."""
    for _ in range(_MOST_LINKED):
        if failure is None:
            return
        yield failure
        hidden = failure.__suppress_context__
        failure = failure.__cause__ or (None if hidden else failure.__context__)


def _line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {str(failure)[:_MOST_WORDS]}"
