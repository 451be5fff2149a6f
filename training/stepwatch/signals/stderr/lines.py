"""Turns the newest stderr bytes into lines that may be stored and shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepwatch.signals.plain_text import REPLACEMENT, plain_line
from stepwatch.signals.secrets import WITHHELD, without_secrets

KEPT_LINES = 40
KEPT_CHARACTERS = 300
"""Only the first characters of a longer line are kept."""
_MOST_READ = 4096
"""Characters in a line that are searched for secrets; the rest is dropped before."""
_BREAKS = re.compile(rb"[\r\n]+")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}\x07?|.?)")
"""ECMA-48 sequences that move the cursor and colour the text."""
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "


def last_lines(data: bytes, cut: bool, secrets: Iterable[str] = ()) -> list[str]:
    """Return the last lines in `data` without secrets and control bytes, at most `KEPT_LINES`.

    `cut`: earlier bytes than `data` are lost, so its first line may begin within a secret and is
    left out. A progress bar that returns to its line's beginning is a line each time.

    >>> last_lines(b"half\\nstep 1\\rstep 2\\nOSError: \\x1b[31mno\\x1b[0m", cut=True)
    ['step 1', 'step 2', 'OSError: no']
    """
    parts = _BREAKS.split(data)[1 if cut else 0 :]
    secret_values = tuple(secrets)
    lines = [_harmless(part, secret_values) for part in parts]
    return [line for line in _without_keys(lines) if line.strip()][-KEPT_LINES:]


def _harmless(part: bytes, secrets: tuple[str, ...]) -> str:
    text = part.decode("utf-8", "replace")[:_MOST_READ]
    # Before and after sequences are removed: a sequence may end the word before a secret, and a
    # sequence may be within a secret.
    text = without_secrets(_ESCAPES.sub("\x1b", text), secrets)
    text = plain_line(text.replace("\x1b", ""))
    text = without_secrets(text, secrets)[:KEPT_CHARACTERS]
    # A crash writes any bytes: some are private or unassigned characters, or unusual spaces.
    return "".join(mark if mark.isprintable() else REPLACEMENT for mark in text)


def _without_keys(lines: list[str]) -> list[str]:
    """Return `lines` with PEM key lines (RFC 7468) withheld, even without a key's start or end."""
    inside = False
    for index, line in enumerate(lines):
        if _KEY_ENDS in line and not inside:
            lines[:index] = [WITHHELD] * index
        inside = (inside or _KEY_BEGINS in line) and _KEY_ENDS not in line
        if inside or _KEY_ENDS in line:
            lines[index] = WITHHELD
    return lines
