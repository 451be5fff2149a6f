"""Records from plain values, without numpy: a small process need not import it for a few rows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

from .fields import BODIES, COMMON, UNKNOWN
from .vocabulary import Kind

Values = dict[str, Any]
"""One record by field name: numbers, and bytes for texts."""
_CODES = {"i2": "h", "i4": "i", "i8": "q", "u2": "H", "u4": "I", "u8": "Q", "f4": "f", "f8": "d"}
"""Letters of `struct` by numpy's type."""


def unknown_values(kind: Kind, **fields: Any) -> Values:
    """Return one record's values: `fields`, and every other field unknown."""
    return {**UNKNOWN[kind], **fields}


def pack(kind: Kind, records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return records in the layout of `DTYPES[kind]`; each has every field, texts are cut.

    Raises:
        ValueError: a field cannot hold its value.
    """
    layout, casts = _layout(kind)
    try:
        return b"".join(
            layout.pack(*[cast(record[name]) for name, cast in casts]) for record in records
        )
    except (struct.error, OverflowError, TypeError) as error:
        raise ValueError(f"a {kind.name} record cannot hold its values: {error}") from error


@cache
def _layout(kind: Kind) -> tuple[struct.Struct, list[tuple[str, Callable[[Any], Any]]]]:
    letters, casts = "<", list[tuple[str, Callable[[Any], Any]]]()
    for name, code in (*COMMON, *BODIES[kind]):
        if code.startswith("S"):
            letters += f"{code[1:]}s"
            casts.append((name, partial(_cut, int(code[1:]))))
        else:
            letters += _CODES[code.lstrip("<")]
            casts.append((name, float if "f" in code else int))
    return struct.Struct(letters), casts


def _cut(size: int, text: bytes) -> bytes:
    """Return at most `size` bytes of a UTF-8 text, cut at a character boundary."""
    return text if len(text) <= size else text[:size].decode("utf-8", "ignore").encode()
