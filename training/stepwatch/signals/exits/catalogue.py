"""The catalogue of exit causes, read from `catalogue.toml`, and its matches in lines. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.names import Cause

MOST_CHARACTERS = 512
"""Only the first characters of a longer line are searched."""


class Weight(IntEnum):
    """A pattern's weight: among one process's lines, the heaviest counts."""

    GENERAL = 0
    """An exception whose message states the problem."""
    SYMPTOM = 1
    """A process's report about another lost process: never why the first one ended."""
    SPECIFIC = 2


class Pattern(NamedTuple):
    """One message that a line may contain. `words` completes "it ...", `action` is the fix."""

    id: str
    weight: Weight
    cause: Cause
    expression: re.Pattern[str]
    words: str
    action: str
    source: str


class Explained(NamedTuple):
    """A pattern and the line that matches it."""

    pattern: Pattern
    line: str


def _load() -> tuple[Pattern, ...]:
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return tuple(
        Pattern(
            item["id"],
            Weight[item.get("weight", "specific").upper()],
            Cause(item["cause"]),
            re.compile(item["expression"], re.IGNORECASE),
            item["words"],
            item["action"],
            item["source"],
        )
        for item in tomllib.loads(text)["pattern"]
    )


CATALOGUE = _load()
"""Every pattern, in the order in which they are tried on a line."""


def explain(lines: Sequence[str]) -> Explained | None:
    """Return the cause in a process's last lines, oldest first; None if no pattern matches.

    The heaviest line counts, and the last among equals: after the error come its consequences, and
    the process's messages during its teardown.

    >>> explain(["CUDA out of memory.", "Connection reset by peer", "done"]).pattern.id
    'device-memory'
    """
    explanations = [explained for explained in map(_explained, lines) if explained is not None]
    return max(reversed(explanations), key=lambda explained: explained.pattern.weight, default=None)


def telling(lines: Sequence[str], most: int) -> list[str]:
    """Return the most informative of a process's last lines, in order.

    The last line is always among them, even if no pattern matches it.

    >>> telling(["MemoryError", "step 1", "KeyError: 'x'", "done"], most=2)
    ['MemoryError', 'done']
    """
    weighed = [
        (explained.pattern.weight, index)
        for index, explained in enumerate(map(_explained, lines[:-1]))
        if explained is not None
    ]
    chosen = sorted(index for _, index in sorted(weighed, reverse=True)[: most - 1])
    return [lines[index] for index in chosen] + list(lines[-1:])


def _explained(line: str) -> Explained | None:
    looked_at = line[:MOST_CHARACTERS]
    for pattern in CATALOGUE:
        if pattern.expression.search(looked_at) is not None:
            return Explained(pattern, line)
    return None
