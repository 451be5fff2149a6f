"""Kernel message parsing with the patterns in `patterns.toml`; pure."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.signals.records import NodeFact

MAX_CHARACTERS = 1024
"""Maximum message length; the excess is not parsed."""
_MICROSECOND = 1000


class Message(NamedTuple):
    """One message; `at_ns` is nanoseconds since boot.

    `kernel` tells whether the kernel wrote it: a process that may write to `/dev/kmsg` (root) can
    add messages.
    """

    at_ns: int
    text: str
    kernel: bool


class Pattern(NamedTuple):
    """The meaning of a message that contains `needle` and matches `expression`.

    Groups may be `subject`, `pid` and `code`; without a subject group, the pattern's `subject`
    counts.
    """

    fact: NodeFact
    needle: str
    expression: re.Pattern[str]
    subject: str
    over: bool
    unless: str


def parse(line: bytes) -> Message | None:
    """Parse a `/dev/kmsg` record `priority,sequence,microseconds,flags;text`; None if invalid.

    Source: Documentation/ABI/testing/dev-kmsg in the kernel.
    """
    head, separator, text = line.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3 or not (fields[0].isdigit() and fields[2].isdigit()):
        return None
    if len(fields[2]) > 18:  # beyond 64 bits
        return None
    words = text[:MAX_CHARACTERS].decode("utf-8", "replace")
    printable = "".join(character if character.isprintable() else "?" for character in words)
    return Message(int(fields[2]) * _MICROSECOND, printable, int(fields[0][:9]) < 8)


def sighting_of(message: Message) -> Sighting | None:
    """Return the fault in a message; None if there is none."""
    for pattern in patterns():
        if pattern.needle not in message.text:
            continue
        if pattern.unless and pattern.unless in message.text:
            continue
        match = pattern.expression.search(message.text)
        if match is not None:
            groups = match.groupdict()
            text = message.text if message.kernel else f"written by a process: {message.text}"
            return Sighting(
                pattern.fact,
                (groups.get("subject") or pattern.subject).lower(),
                text,
                int(groups.get("code") or -1),
                pid=int(groups.get("pid") or 0),
                at_ns=message.at_ns,
                over=pattern.over,
            )
    return None


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return the patterns, in matching order."""
    text = Path(__file__).with_name("patterns.toml").read_text(encoding="utf-8")
    return tuple(
        Pattern(
            NodeFact[item["fact"].upper().replace("-", "_")],
            item["needle"],
            re.compile(item["expression"]),
            item.get("subject", ""),
            item.get("over", False),
            item.get("unless", ""),
        )
        for item in tomllib.loads(text)["pattern"]
    )
