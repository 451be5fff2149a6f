"""From the newest bytes of stderr to lines that may be stored and shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.secrets import WITHHELD, without_secrets

KEPT_LINES = 40
KEPT_CHARACTERS = 300
"""Of a line that is longer the beginning is kept."""
_MOST_READ = 4096
"""Characters of a line that are searched for secrets; the rest is left out before."""
_BREAKS = re.compile(rb"[\r\n]+")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}\x07?|.?)")
"""Sequences of ECMA-48 that move the cursor and colour the text."""
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN ", "-----END "


def last_lines(data: bytes, cut: bool, secrets: Iterable[str] = ()) -> list[str]:
    """The last lines of `data` without secrets and control bytes, at most `KEPT_LINES`.

    `cut`: bytes before `data` are gone, so its first line may begin within a secret and is left
    out. A progress bar that returns to the beginning of its line is a line each time.

    >>> last_lines(b"half\\nstep 1\\rstep 2\\nOSError: \\x1b[31mno\\x1b[0m", cut=True)
    ['step 1', 'step 2', 'OSError: no']
    """
    parts = _BREAKS.split(data)[1 if cut else 0 :]
    secret_values = tuple(secrets)
    lines = [_harmless(part, secret_values) for part in parts]
    return [line for line in _without_keys(lines) if line.strip()][-KEPT_LINES:]


def _harmless(part: bytes, secrets: tuple[str, ...]) -> str:
    text = part.decode("utf-8", "replace")[:_MOST_READ]
    # Before and after sequences are taken out: one may end the word that a secret comes after, and
    # one may stand within a secret.
    text = without_secrets(_ESCAPES.sub("\x1b", text), secrets)
    text = plain_line(text.replace("\x1b", ""))
    return without_secrets(text, secrets)[:KEPT_CHARACTERS]


def _without_keys(lines: list[str]) -> list[str]:
    """`lines` with those of keys in PEM form (RFC 7468) withheld, also where the beginning or the
    end of one is missing."""
    inside = False
    for index, line in enumerate(lines):
        if _KEY_ENDS in line and not inside:
            lines[:index] = [WITHHELD] * index
        inside = (inside or _KEY_BEGINS in line) and _KEY_ENDS not in line
        if inside or _KEY_ENDS in line:
            lines[index] = WITHHELD
    return lines
