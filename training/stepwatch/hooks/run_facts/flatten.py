"""Turns nested settings into names and texts, without secrets. Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

MOST_FACTS = 256
"""Of one part of a run; a record of a ring each, or up to four of them."""
_MOST_DEPTH = 8
_MOST_LISTED = 64
_NAME_SIZE, _VALUE_SIZE = 80, 120
_DIGEST_SIZE = 12
WITHHELD = "(withheld)"
"""In place of a value that may be a secret."""

_SECRET_NAME = re.compile(
    r"(^|[._-])(token|secret|password|passwd|passphrase|credentials?|cookie|auth|authorization)$"
    r"|(api|access|private|secret|account|signing|encryption)[._-]?key",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"://[^/\s:@]*:[^/\s@]+@"  # an address with a password
    r"|\b(sk|hf|ghp|gho|xox[bp]|glpat)[-_][A-Za-z0-9_-]{12,}"  # tokens of well-known services
    r"|\bAKIA[0-9A-Z]{12,}"
)


def flatten(values: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Name and text of each setting of a mapping, a dataclass or a namespace, at most `MOST_FACTS`.

    Names are joined with dots below `prefix`; what may be a secret is `WITHHELD`. A text longer
    than 120 characters ends with a digest of all of it, so that a change in it still shows.

    >>> list(flatten({"per_token": 6e9, "hub_token": "x"}, "config"))
    [('config.per_token', '6000000000.0'), ('config.hub_token', '(withheld)')]
    """
    for count, (name, value) in enumerate(_leaves(values, prefix, 0)):
        if count == MOST_FACTS:
            return
        text = WITHHELD if _is_secret(name, value) else _text(value)
        yield name[:_NAME_SIZE], WITHHELD if _SECRET_VALUE.search(text) else _short(text)


def _is_secret(name: str, value: Any) -> bool:
    """Whether the name is that of a secret. A number is no token: `flops_per_token` is 6e9."""
    is_number = isinstance(value, int | float) and name.endswith("token")
    return _SECRET_NAME.search(name) is not None and not is_number


def _leaves(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    found = _children(value)
    if found is None or depth == _MOST_DEPTH:
        yield name, value
        return
    for key, child in found.items():
        yield from _leaves(child, f"{name}.{key}", depth + 1)


def _children(value: Any) -> Mapping[Any, Any] | None:
    """What is in a value that is no leaf; None of a leaf."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if type(value).__name__ == "Namespace":  # argparse's, and what looks like it
        return dict(vars(value))
    return None


def _text(value: Any) -> str:
    """Plain values as they are; of anything else its type: its own text may be huge, or differ in
    each process (an address in memory)."""
    if isinstance(value, Enum):
        return _text(value.value)
    if value is None or isinstance(value, str | bool | int | float | PurePath):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        parts = sorted(map(_text, value)) if isinstance(value, set | frozenset) else value
        shown = [each if isinstance(each, str) else _text(each) for each in parts]
        more = "" if len(shown) <= _MOST_LISTED else f", {len(shown)} in all"
        return f"[{', '.join(shown[:_MOST_LISTED])}{more}]"
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _short(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= _VALUE_SIZE:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    end = f"... sha256 {digest[:_DIGEST_SIZE]}"
    return text[: _VALUE_SIZE - len(end)] + end
