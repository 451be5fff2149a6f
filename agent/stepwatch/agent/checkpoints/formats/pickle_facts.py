"""A parsed pickle's effect on a file's facts: problems, top-level values, secrets."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.pickles import Pairs, Pickle, entries, judge, read_pickle
from stepwatch.agent.checkpoints.reading import Session, UncheckableError, Window
from stepwatch.agent.checkpoints.result import Weight

from .secrets import first_secret

_LONGEST_VALUE = 200
"""Characters of a text among the values."""
_LEVELS = 3
"""Dictionaries inside each other, as in `ds_config.zero_optimization.stage`."""
_MOST_PAIRS = 256
"""A larger dictionary is no configuration."""


def add_pickle(facts: FileFacts, pickle: Pickle, *, is_root: bool = True) -> None:
    """Add a pickle's problems and, with `is_root`, its top-level values to `facts`."""
    for weight, reason in judge(pickle):
        facts.add(reason, weight)
    if pickle.error is not None:
        facts.add(f"its pickle cannot be parsed: {pickle.error}")
    if (secret := first_secret("\n".join(pickle.strings))) is not None:
        facts.add(f"its pickle holds a secret ({secret})", Weight.NOTICE)
    if is_root:
        pairs = [(key, value) for key, value in entries(pickle.root) if isinstance(key, str)]
        facts.keys = facts.keys | {key for key, _ in pairs}
        facts.values = {**facts.values, **dict(_values(pickle.root, "", _LEVELS))}


def _values(root: Any, prefix: str, levels: int) -> Iterator[tuple[str, Any]]:
    """Yield numbers and texts by dotted name, from this many levels."""
    for key, value in entries(root):
        if not isinstance(key, str):
            continue
        if isinstance(value, int | float):
            yield prefix + key, value
        elif isinstance(value, str):
            yield prefix + key, value[:_LONGEST_VALUE]
        elif isinstance(value, Pairs) and levels > 1 and len(value.pairs) < _MOST_PAIRS:
            yield from _values(value, f"{prefix}{key}.", levels - 1)


def examine_plain(window: Window, facts: FileFacts, session: Session) -> None:
    """Scan a file of pickles, one after the other.

    Raises:
        UncheckableError: it is larger than the limit.
        OSError: the storage cannot be read.
    """
    if window.size > session.limits.pickle_bytes:
        raise UncheckableError(f"its pickle has {window.size} bytes")
    file = io.BytesIO(window.read(0, window.size))
    facts.format = "pickle"
    while file.tell() < window.size:
        pickle = read_pickle(file, session.check_deadline)
        add_pickle(facts, pickle)
        if pickle.error is not None:
            return
