"""An exception's reason for a rank's end or a failed save: one line without secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator

_MOST_WORDS = 4096
"""Most characters of an exception to read: a record holds fewer."""
_MOST_LINKED = 16

_TRANSPORTS = ("gloo", "nccl", "tcpstore", "dist")
"""Words of which a lost rank's error holds one: its backend, or the name of torch's exception."""


def words_of(failure: BaseException) -> str:
    """Return `ValueError: shard 17 is empty`, or the line of the exception that caused this one.

    Two causes count even if a later exception hides them: an exhausted resource, and a lost rank.
    torch.save to a full disk raises `unexpected pos 704 vs 598` while it handles `[Errno 28]`, DCP
    puts all ranks' tracebacks into its own exception's text, and a pipeline's schedule raises
    `[Stage 1] failed to run forward` from Gloo's `Connection reset by peer`.
    """
    # Secrets and patterns are imported only when a rank or a save fails: they cost milliseconds.
    from stepwatch.signals.secrets import known_secrets, without_secrets

    hidden = _hidden_cause(failure)
    text = hidden if hidden is not None else _line(failure)
    return without_secrets(text, known_secrets(os.environ))


def _hidden_cause(failure: BaseException) -> str | None:
    from stepwatch.signals.exits import Weight, explain
    from stepwatch.signals.names import Cause

    chain = list(_chain(failure))
    lines = [line.strip() for linked in chain for line in _line(linked).splitlines() if line]
    explained = explain(lines)
    if explained is None or explained.pattern.weight is Weight.GENERAL:
        return None
    if explained.pattern.weight is Weight.SPECIFIC:
        # An exhausted resource is the cause, even if a later exception hides it.
        exhausted = (
            Cause.DISK_FULL,
            Cause.FILE_LIMIT,
            Cause.HOST_MEMORY,
            Cause.DEVICE_MEMORY,
            Cause.SHARED_MEMORY,
        )
        return explained.line if explained.pattern.cause in exhausted else None
    # A lost connection to a data server has the same words: only torch's transports count.
    return next(
        (_line(linked) for linked in chain if _is_lost(linked)),
        None,
    )


def _is_lost(failure: BaseException) -> bool:
    from stepwatch.signals.exits import Weight, explain

    line = _line(failure)
    explained = explain(line.splitlines())
    is_symptom = explained is not None and explained.pattern.weight is Weight.SYMPTOM
    return is_symptom and any(transport in line.lower() for transport in _TRANSPORTS)


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
