"""Texts with secrets withheld. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .names import is_secret_name
from .rules import rules_for

WITHHELD = "(withheld)"
"""Replaces a value whose name announces a secret."""
_ASSIGNED = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,80})[\"']?\s{0,3}([=:])\s{0,3}([\"']?)(?=[^\s\"'])"
)
_FLAG = re.compile(
    r"(?:(?<=[\s\[(\"'])|^)--?([A-Za-z][\w-]{1,60})"
    r"(?:[ =]|[\"']?,\s?[\"']?)(?!-)([^\s,\])\"']{1,2000})"
)
"""A flag in a command line and its value, in one text or as two words in a list."""
_PAIR = re.compile(
    r"[\[(][\"']?([A-Za-z_][\w.-]{0,80})[\"']?, ?([\"']?)([^\[\](),]{1,2000})(?=[\])])"
)
"""A list or tuple with a name and its value."""
_NUMBER = re.compile(r"[+-]?[\d.,]{1,12}(?:e[+-]?\d{1,3})?[\"',;)}\]]{0,4}(?:\s|$)", re.IGNORECASE)
_FOLDERS = ("PWD", "OLDPWD")
"""Shell variables whose names only look like a password's."""
_LEAST_KNOWN = 6
"""A variable's shorter value may be part of any word."""


def holds_secret(text: str) -> bool:
    """Return whether a text has the form of a secret, or holds one, under any name."""
    return any(rule.pattern.search(text) for rule in rules_for(text))


def known_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables whose names announce secrets, the longest first."""
    values = {
        value
        for name, value in environ.items()
        if len(value) >= _LEAST_KNOWN
        and name not in _FOLDERS
        and is_secret_name(name, is_number=value.isdigit())
    }
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return one line of text without its secrets and `secrets`; it names the withheld form.

    A value that is assigned to a secret's name is withheld to the end of the line: it may have any
    form. Numbers are kept.

    >>> without_secrets("PermissionError: s3://me:hush@host/x")
    'PermissionError: s3(withheld: password)host/x'
    >>> without_secrets("train.py --hub-token x7 --lr 3")
    'train.py --hub-token (withheld) --lr 3'
    """
    for secret in secrets:
        text = text.replace(secret, WITHHELD)
    for match in _ASSIGNED.finditer(text):
        if is_secret_name(match[1], is_number=_is_number(text[match.end() :])):
            return _without_forms(text[: match.start()]) + match[0] + WITHHELD
    return _without_forms(text)


def _without_forms(text: str) -> str:
    text = _PAIR.sub(_withheld_value, _FLAG.sub(_withheld_value, text))
    for rule in rules_for(text):
        text = rule.withheld(text)
    return text


def _withheld_value(match: re.Match[str]) -> str:
    """Return a name-value match, without its last group, the value, if the name is a secret's."""
    value = match[match.re.groups]
    if not is_secret_name(match[1], is_number=_is_number(value)):
        return match[0]
    return match[0][: -len(value)] + WITHHELD


def _is_number(text: str) -> bool:
    """Return whether `text` begins with a number short enough to be a count."""
    return _NUMBER.match(text) is not None
