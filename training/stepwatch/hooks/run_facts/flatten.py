"""Turns nested settings into names and texts, without secrets. Pure.

Work and memory are bounded for any description: this runs on the training thread.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from itertools import islice
from numbers import Number
from pathlib import PurePath
from typing import Any

from stepwatch.signals.secrets import WITHHELD, is_secret_name, without_secrets

MOST_FACTS = 256
"""Most facts in one part of a run; one record in a ring for each, or up to eight."""
_MOST_DEPTH = 8
_MOST_LISTED = 64
_MOST_SORTED = 4096
_NAME_SIZE, _VALUE_SIZE = 80, 120
_DIGEST_SIZE = 12
_END_SIZE = 4096
"""Characters to read at each end of a long text."""
_RAISED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError, OSError,
    ReferenceError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
"""Expected exceptions from reading a value: they cost one setting. Others cost the whole part."""
UNREADABLE = "(unreadable)"
"""Replaces a value that raises when it is read."""


def flatten(values: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield name and text for each setting in a mapping, dataclass or namespace.

    It yields at most `MOST_FACTS`. Names are joined with dots below `prefix`; a possible secret is
    `WITHHELD`. A text longer than 120 characters ends with its digest, so that a change in it still
    shows. In a text longer than 8,192 characters, a change between the ends shows only in its
    length.

    >>> list(flatten({"per_token": 6e9, "hub_token": "x"}, "config"))
    [('config.per_token', '6000000000.0'), ('config.hub_token', '(withheld)')]
    """
    for name, value in islice(_leaves(values, prefix, 0), MOST_FACTS):
        yield name[:_NAME_SIZE], _shown(name[len(prefix) :], value)


def _shown(name: str, value: Any) -> str:
    try:
        plain = _plain(value)
        text = _text(plain, 0)
    except _RAISED:
        return UNREADABLE
    if is_secret_name(name, is_number=_is_number(plain)):
        return WITHHELD
    return _short(without_secrets(text))


def _leaves(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    try:
        members = None if depth == _MOST_DEPTH else _children(value)
        children = None if members is None else [*islice(members.items(), MOST_FACTS + 1)]
        named = [(f"{name}.{key}", child) for key, child in children or ()]
    except _RAISED:
        yield name, _Unreadable()
        return
    if children is None:
        yield name, value
        return
    for below, child in named:
        yield from _leaves(child, below, depth + 1)


class _Unreadable:
    """Replaces a mapping that raises."""


def _children(value: Any) -> Mapping[Any, Any] | None:
    """Return the children of a value that is not a leaf; None for a leaf."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if type(value).__name__ == "Namespace":  # argparse's, and similar classes
        return dict(vars(value))
    return None


def _plain(value: Any) -> Any:
    """Return the number in a one-element array or tensor on the host; other values unchanged.

    Reading it from a device would wait for the device.
    """
    if isinstance(value, str | bool | Number) or not hasattr(value, "item"):
        return value
    device = getattr(value, "device", "cpu")
    is_one = getattr(value, "shape", None) in ((), (1,))
    if is_one and getattr(device, "type", device) == "cpu":
        return value.item()
    return value


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, or numeric text: YAML reads 6e9 as text."""
    if isinstance(value, str) and len(value) <= _VALUE_SIZE:
        try:
            return math.isfinite(float(value))
        except ValueError:
            return False
    return isinstance(value, Number)


def _text(value: Any, depth: int) -> str:
    """Return plain values as text; for other values only the type.

    Their own text may be huge, or differ in each process (an address in memory).
    """
    if isinstance(value, Enum):
        return _text(value.value, depth)
    if isinstance(value, _Unreadable):
        return UNREADABLE
    if isinstance(value, str):
        return _bounded(value)
    if value is None or isinstance(value, bool | Number | PurePath) or _is_kind(value):
        return str(value)
    if isinstance(value, Set) and len(value) <= _MOST_SORTED:
        return _listed(sorted(_text(element, depth + 1) for element in value), len(value), depth)
    if isinstance(value, list | tuple):
        return _listed(value[:_MOST_LISTED], len(value), depth)
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _listed(values: Any, size: int, depth: int) -> str:
    if depth == _MOST_DEPTH:
        return f"[{size} in all]"
    shown = [_text(element, depth + 1) for element in values[:_MOST_LISTED]]
    more = "" if len(shown) == size else f", {size} in all"
    return f"[{', '.join(shown)}{more}]"


def _is_kind(value: Any) -> bool:
    """Return whether it is a number type or device from torch or numpy, with a meaningful text."""
    kind = type(value)
    return kind.__module__.partition(".")[0] in ("torch", "numpy") and (
        kind.__name__ in ("dtype", "device", "Size") or kind.__name__.endswith("DType")
    )


def _bounded(text: str) -> str:
    """Return both ends of a long text, and its length."""
    if len(text) <= 2 * _END_SIZE:
        return text
    return f"{text[:_END_SIZE]}...{len(text)} characters...{text[-_END_SIZE:]}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= _VALUE_SIZE:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    end = f"... sha256 {digest[:_DIGEST_SIZE]}"
    return text[: _VALUE_SIZE - len(end)] + end
