"""Record layouts: described as text, checked before use, and converted by field name.

A layout is packed and little-endian. Its text names every field in byte order, each with a
one-letter code and a size:

    rank:i4 seq:u8 loss:f4 text:S48

Segments and rings carry this text, so a reader decodes rows from another version's writer. It skips
an unknown field. A missing or unfitting field gets its unknown value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .arrays import Column, Mask, Rows

MAX_FIELDS = 256
MAX_ROW_BYTES = 8192
MAX_TEXT_BYTES = 1024
"""Largest text field."""
MAX_DESCRIPTION_BYTES = 8192

_FIELD = re.compile(r"([a-z][a-z0-9_]{0,62}):([iu][1248]|f[48]|S[1-9][0-9]{0,3})")


class LayoutError(ValueError):
    """A description or a dtype that is not a record layout."""


Numbers = np.ndarray[tuple[int], np.dtype[Any]]
Unknowns = Mapping[str, int | float | bytes]
"""The value that means unknown, by field name."""


class Converter(NamedTuple):
    """Turns rows of one layout into rows of another, field by field."""

    source: np.dtype[np.void]
    target: np.dtype[np.void]
    unknown: Unknowns

    def __call__(self, rows: Rows) -> Rows:
        """Convert rows in layout `source`; return a new array in layout `target`, one row for each.

        A value that the target's field cannot hold becomes unknown; it never wraps.
        """
        converted = np.empty(len(rows), dtype=self.target)
        names = self.source.names or ()
        for name in self.target.names or ():
            unknown = self.unknown[name]
            converted[name] = (
                _convert(rows[name], self.target[name], unknown) if name in names else unknown
            )
        return converted


def describe(dtype: np.dtype[np.void]) -> str:
    """Return a packed layout's text.

    Raises:
        LayoutError: it has gaps, or fields that a description cannot name.
    """
    fields = [(name, dtype[name].str) for name in dtype.names or ()]
    text = " ".join(f"{name}:{code.lstrip('<|')}" for name, code in fields)
    if parse(text.encode("ascii", "replace")) != dtype:
        raise LayoutError("its fields are not packed, or not little-endian numbers and texts")
    return text


@lru_cache(maxsize=256)
def parse(text: bytes) -> np.dtype[np.void]:
    """Read a description; equal texts give the same dtype.

    Raises:
        LayoutError: too many fields or bytes, a repeated name, or a type outside integers with
            1 to 8 bytes, floats with 4 or 8, and texts with 1 to 1024.
    """
    if len(text) > MAX_DESCRIPTION_BYTES:
        raise LayoutError(f"a description of {len(text)} bytes is too long")
    words = text.decode("ascii", "replace").split(" ")
    if len(words) > MAX_FIELDS:
        raise LayoutError(f"{len(words)} fields are too many for one record")
    fields = [_parse_field(word) for word in words]
    if len({name for name, _ in fields}) != len(fields):
        raise LayoutError("it names a field twice")
    dtype = np.dtype(fields)
    if dtype.itemsize > MAX_ROW_BYTES:
        raise LayoutError(f"a row of {dtype.itemsize} bytes is too large")
    return dtype


def _parse_field(word: str) -> tuple[str, str]:
    matched = _FIELD.fullmatch(word)
    if matched is None:
        raise LayoutError(f"{word[:80]!r} describes no field")
    name, code = matched.groups()
    if code[0] == "S" and int(code[1:]) > MAX_TEXT_BYTES:
        raise LayoutError(f"the text {name!r} is larger than {MAX_TEXT_BYTES} bytes")
    return name, code if code[0] == "S" else f"<{code}"


def _convert(values: Column, target: np.dtype[np.generic], unknown: int | float | bytes) -> Column:
    if values.dtype == target:
        return values
    if "S" in (values.dtype.kind, target.kind):
        same_kind = values.dtype.kind == target.kind
        return values.astype(target) if same_kind else np.full(len(values), unknown, dtype=target)
    fits = _fits(values, target)
    with np.errstate(all="ignore"):
        return np.where(fits, values.astype(target), np.asarray(unknown, dtype=target))


def _fits(values: Column, target: np.dtype[np.generic]) -> Mask:
    """Return which numbers `target` holds: exactly, except that floats may be rounded."""
    numbers: Numbers = values
    with np.errstate(all="ignore"):
        cast: Numbers = values.astype(target)
        back: Numbers = cast.astype(values.dtype)
    fits: Mask
    if values.dtype.kind == "f" and target.kind == "f":
        # 1.1 -> 1.1 (rounded), inf -> inf, nan -> nan, 1e300 -> unknown
        fits = ~np.isinf(cast) | np.isinf(numbers)
    elif values.dtype.kind == "f":
        # 7.0 -> 7; 7.5, nan and 1e300 -> unknown. 2.0**64 fits no uint64: `<` and not `<=`.
        lowest = -(2.0 ** _value_bits(target)) if target.kind == "i" else 0.0
        inside = (numbers >= lowest) & (numbers < 2.0 ** _value_bits(target))
        fits = inside & (numbers == np.trunc(numbers))
    elif target.kind == "f":
        # 2**53 + 1 -> unknown: the conversion back gives another number. uint64 max rounds to
        # 2.0**64, whose conversion back may give anything, so values at the upper limit do not
        # count.
        fits = (cast < 2.0 ** _value_bits(values.dtype)) & (back == numbers)
    else:
        # -1 as u4 -> unknown: the cast wraps to 2**32 - 1, whose sign differs.
        fits = (back == numbers) & ((cast < 0) == (numbers < 0))
    return fits


def _value_bits(dtype: np.dtype[np.generic]) -> int:
    return 8 * dtype.itemsize - (dtype.kind == "i")
