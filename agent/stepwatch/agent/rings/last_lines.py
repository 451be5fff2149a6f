"""The last stderr lines from ended ranks, as LAST_LINE rows.

A file next to the rings holds the lines, with secrets removed. They are reported once, when no
process has that stderr open, or soon after the rank ended: a child may survive it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stepwatch.agent.rings.process_exits import ProcessExit
from stepwatch.agent.rings.tail import RingTail
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.exits import telling
from stepwatch.signals.records import DTYPES, Kind, text_bytes
from stepwatch.signals.stderr import line_files
from stepwatch.signals.wire import Rows

MOST_LINES = 4
SETTLE_SECONDS = 2.0
"""A stderr relay stores new lines within half a second; the remainder is for a busy node."""
NOT_KEPT = "not kept: start the rank with `stepwatch run`"
EMPTY = "it wrote nothing to stderr"
_DTYPE = DTYPES[Kind.LAST_LINE]
_TEXT_SIZE = _DTYPE["text"].itemsize

ExitOf = Callable[[int], ProcessExit | None]


class EndedRanks:
    """Ended ranks whose last lines are not reported yet."""

    def __init__(self, exit_of: ExitOf) -> None:
        self._exit_of = exit_of

    def rows(self, tails: Sequence[RingTail], ended: Sequence[RingTail], now_ns: int) -> Rows:
        """Return rows for ranks with final lines; `ended` are rings without further records.

        A tail without more to report about its end is marked as `reported`.
        """
        parts = [np.zeros(0, dtype=_DTYPE)]
        for tail in tails:
            exited = self._exit_of(tail.ring_id)
            if tail.reported or (
                exited is None and not any(tail is ended_tail for ended_tail in ended)
            ):
                continue
            since_ns = exited.at_ns if exited is not None else 0
            wanted = exited is None or exited.exit_code != 0
            stored = _lines(tail.reader) if wanted else None
            if stored is not None and not stored.final and _is_fresh(since_ns, now_ns):
                continue
            tail.reported = True
            if wanted:
                parts.append(_rows(tail.reader.identity.rank, stored, now_ns))
        return np.concatenate(parts)


def _is_fresh(since_ns: int, now_ns: int) -> bool:
    return 0 <= now_ns - since_ns < SETTLE_SECONDS * NANOSECONDS


def _lines(reader: RingReader) -> line_files.SavedLines | None:
    """Return the lines from a ring's process; None if they were not kept."""
    identity = reader.identity
    writer = line_files.Writer(identity.pid_namespace, identity.pid, identity.process_start)
    folder = reader.path.parents[2] / line_files.FOLDER
    try:
        return line_files.read(folder / writer.name, reader.owner)
    except (OSError, ValueError, RecursionError):
        return None


def _rows(rank: int, stored: line_files.SavedLines | None, now_ns: int) -> Rows:
    lines = [] if stored is None else telling(stored.lines, MOST_LINES)
    if lines:
        rows = np.zeros(len(lines), dtype=_DTYPE)
        rows["text"] = [text_bytes(line, _TEXT_SIZE) for line in lines]
        rows["kept"], rows["place"] = 1, np.arange(len(lines))
    else:
        rows = np.zeros(1, dtype=_DTYPE)
        rows["text"] = text_bytes(NOT_KEPT if stored is None else EMPTY, _TEXT_SIZE)
    rows["rank"], rows["time_ns"] = rank, now_ns
    return rows
