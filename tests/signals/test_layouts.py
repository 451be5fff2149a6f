"""Rows of one layout become rows of another by name; a value that does not fit is unknown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.signals import layouts
from stepwatch.signals.layouts import Converter, LayoutError
from stepwatch.signals.records import DTYPES, Kind

CODES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "S1", "S7", "S1024")
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)


def converted(value: object, source: str, target: str, unknown: Any) -> Any:
    """Return a value that was written as `source` and read as `target`."""
    source_dtype, target_dtype = np.dtype([("x", source)]), np.dtype([("x", target)])
    rows = np.array([(value,)], dtype=source_dtype)
    return Converter(source_dtype, target_dtype, {"x": unknown})(rows)["x"][0].item()


@pytest.mark.parametrize("kind", list(Kind))
def test_every_record_has_a_description_that_gives_its_dtype(kind: Kind) -> None:
    text = layouts.describe(DTYPES[kind])
    assert text.startswith("rank:i4 seq:u8 time_ns:u8 step:u4 ")
    assert layouts.parse(text.encode()) == DTYPES[kind]


@given(st.lists(st.tuples(NAMES, st.sampled_from(CODES)), min_size=1, unique_by=lambda f: f[0]))
def test_a_description_is_read_as_it_was_written(fields: list[tuple[str, str]]) -> None:
    dtype = np.dtype([(name, f"<{code}") for name, code in fields])
    if dtype.itemsize <= layouts.MAX_ROW_BYTES:
        assert layouts.parse(layouts.describe(dtype).encode()) == dtype


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rank",
        "rank:",
        "rank:i4 rank:i4",
        "rank:i4  seq:u8",
        "rank:i4,seq:u8",
        "rank:>i4",
        "rank:i3",
        "rank:i16",
        "rank:f2",
        "rank:S0",
        "rank:S01",
        "rank:S1025",
        "rank:S99999999999999999999",
        "rank:O",
        "rank:V8",
        "rank:U8",
        "rank:M8[ns]",
        "rank:m8",
        "rank:c8",
        "rank:?",
        "rank:(9,9)i4",
        "rank:i4\n",
        "Rank:i4",
        "_rank:i4",
        "r\u00e4nk:i4",
        "rank\0:i4",
        " ".join(f"x{number}:i4" for number in range(layouts.MAX_FIELDS + 1)),
        " ".join(f"x{number}:S1024" for number in range(9)),
        "x" * 9000 + ":i4",
    ],
)
def test_an_absurd_description_is_refused(text: str) -> None:
    with pytest.raises(LayoutError):
        layouts.parse(text.encode())


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read_and_nothing_else(garbage: bytes) -> None:
    try:
        dtype = layouts.parse(garbage)
    except LayoutError:
        return
    assert layouts.describe(dtype).encode() == garbage


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("x", ">i4")]),
        np.dtype([("x", "O")]),
        np.dtype([("x", "<U4")]),
        np.dtype([("x", "<i4", (2,))]),
        np.dtype({"names": ["x"], "formats": ["<i4"], "offsets": [4]}),
        np.dtype([("x", [("y", "<i4")])]),
    ],
)
def test_a_dtype_that_is_no_layout_is_not_described(dtype: np.dtype[np.void]) -> None:
    with pytest.raises(LayoutError):
        layouts.describe(dtype)


@pytest.mark.parametrize(
    ("value", "source", "target", "unknown", "expected"),
    [
        (7, "<u2", "<u8", 0, 7),
        (-7, "<i2", "<i8", 0, -7),
        (65_535, "<u4", "<u2", 0, 65_535),
        (65_536, "<u4", "<u2", 0, 0),
        (-1, "<i4", "<u4", 0, 0),
        (-1, "<i8", "<u8", 9, 9),
        (2**63, "<u8", "<i8", -1, -1),
        (2**64 - 1, "<u8", "<i8", -5, -5),
        (128, "<i2", "<i1", -1, -1),
        (2**53, "<u8", "<f8", math.nan, 2.0**53),
        (2**24 + 1, "<u4", "<f4", -1.0, -1.0),
        (2**53 + 1, "<u8", "<f8", -1.0, -1.0),
        (2**64 - 1, "<u8", "<f8", -1.0, -1.0),
        (2**63 - 1, "<i8", "<f8", -1.0, -1.0),
        (-(2**63), "<i8", "<f8", -1.0, -(2.0**63)),
        (7.0, "<f8", "<u2", 0, 7),
        (7.5, "<f8", "<u2", 9, 9),
        (-0.0, "<f8", "<u2", 9, 0),
        (math.nan, "<f8", "<i8", -1, -1),
        (math.inf, "<f4", "<i8", -1, -1),
        (-math.inf, "<f4", "<u8", 9, 9),
        (2.0**63, "<f8", "<i8", -1, -1),
        (-(2.0**63), "<f8", "<i8", -1, -(2**63)),
        (2.0**64, "<f8", "<u8", 9, 9),
        (1.5, "<f4", "<f8", 0.0, 1.5),
        (1e300, "<f8", "<f4", -1.0, -1.0),
        (math.inf, "<f8", "<f4", -1.0, math.inf),
        (b"abc", "S8", "S2", b"", b"ab"),
        (b"abc", "S3", "S9", b"", b"abc"),
        (b"7", "S3", "<i4", -1, -1),
        (7, "<i4", "S3", b"", b""),
    ],
)
def test_a_value_arrives_or_is_unknown(
    value: object, source: str, target: str, unknown: object, expected: object
) -> None:
    assert converted(value, source, target, unknown) == expected


def test_a_float_is_rounded_to_a_narrower_one_and_nan_stays() -> None:
    assert converted(0.1, "<f8", "<f4", -1.0) == pytest.approx(0.1, rel=1e-7)
    assert math.isnan(converted(math.nan, "<f8", "<f4", -1.0))


@given(
    value=st.integers(-(2**63), 2**64 - 1),
    source=st.sampled_from([code for code in CODES if code[0] in "iu"]),
    target=st.sampled_from([code for code in CODES if code[0] in "iuf"]),
)
def test_no_integer_ever_becomes_another(value: int, source: str, target: str) -> None:
    limits = np.iinfo(f"<{source}")
    value = max(min(value, int(limits.max)), int(limits.min))
    marker = 1 if value != 1 else 2
    result = converted(value, f"<{source}", f"<{target}", marker)
    assert result in (value, marker)
    if target[0] in "iu" and np.iinfo(f"<{target}").min <= value <= np.iinfo(f"<{target}").max:
        assert result == value


def test_unknown_fields_are_skipped_and_missing_ones_unknown() -> None:
    source_dtype = np.dtype([("b", "<u2"), ("new", "S4"), ("a", "<f8")])
    target_dtype = np.dtype([("a", "<f4"), ("gone", "<i4"), ("b", "<u8")])
    rows = np.array([(1, b"x", 0.5), (2, b"y", 1e300)], dtype=source_dtype)
    read = Converter(source_dtype, target_dtype, {"a": math.nan, "gone": -1, "b": 0})(rows)
    assert read["a"][0] == 0.5
    assert math.isnan(read["a"][1])
    assert read["gone"].tolist() == [-1, -1]
    assert read["b"].tolist() == [1, 2]
