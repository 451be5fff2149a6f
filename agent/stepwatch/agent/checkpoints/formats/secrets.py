"""Secrets in the text of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stepwatch.signals.secrets import is_secret_name
from stepwatch.signals.secrets.rules import rules_for

_LOOSE = frozenset({"credentials", "setting", "password", "login", "curl login"})
"""Rules that withhold too much for a report: prose and special tokens match them."""
_URL_PASSWORD = re.compile(r"://[^/\s:@]{1,64}:[^\s@/]{3,256}@[\w.-]+")
_ASSIGNED = re.compile(
    r"""^\s{0,64}["']?([A-Za-z_][\w.-]{0,80})["']?\s{0,3}[:=]\s{0,3}["']?([^\s"',]{1,200})""", re.M
)
_CREDENTIAL = re.compile(r"(?=[^\s<>|]*\d)(?=[^\s<>|]*[A-Za-z])[^\s<>|\[\]/.]{16,}")
"""A value that looks random: `<|end_of_text|>`, `[PAD]`, paths and words do not."""


def first_secret(text: str) -> str | None:
    """Return the form of the first secret in a text, or None."""
    for rule in rules_for(text):
        if rule.name not in _LOOSE and rule.pattern.search(text):
            return rule.name
    if _URL_PASSWORD.search(text):
        return "password in a URL"
    for match in _ASSIGNED.finditer(text):
        if is_credential(match[1], match[2]):
            return match[1]
    return None


def is_credential(name: str, value: str) -> bool:
    """Return whether a setting's name and value are those of a credential."""
    return is_secret_name(name, is_number=False) and _CREDENTIAL.fullmatch(value) is not None


def named_strings(document: Any) -> Iterator[tuple[str, str]]:
    """Yield each name with its text in a JSON document."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for name, entry in value.items():
                if isinstance(entry, str):
                    yield name, entry
                else:
                    waiting.append(entry)
        elif isinstance(value, list):
            waiting.extend(entry for entry in value if isinstance(entry, dict | list))
