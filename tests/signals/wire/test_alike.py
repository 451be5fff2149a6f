"""Segments that are packed together equal those packed one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import SegmentError
from stepwatch.signals.records import Kind

from .test_wire import KEY, random_rows


@settings(max_examples=30)
@given(
    counts=st.dictionaries(st.sampled_from([*Kind][:16]), st.integers(0, 9)),
    many=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_each_is_read_back_as_it_was(counts: dict[Kind, int], many: int, seed: int) -> None:
    tables = {
        kind: random_rows(kind, many * count, seed).reshape(many, count)
        for kind, count in counts.items()
    }
    heads = [(KEY._replace(sequence=index), ClockPair(index, index + 1)) for index in range(many)]
    segments = wire.encode_alike(heads, tables)
    assert len(segments) == many
    for index, data in enumerate(segments):
        read = wire.decode(data)
        assert (read.key, read.clock) == heads[index]
        assert read.tables.keys() == {kind for kind, count in counts.items() if count}
        for kind, rows in read.tables.items():
            assert rows.tobytes() == tables[kind][index].tobytes()


def test_what_no_reader_accepts_is_not_packed() -> None:
    rows = np.zeros((1, wire.MAX_ROWS + 1), dtype=random_rows(Kind.CURSOR, 1, 0).dtype)
    with pytest.raises(SegmentError, match="split it"):
        wire.encode_alike([(KEY, ClockPair(1, 2))], {Kind.CURSOR: rows})
    with pytest.raises(SegmentError, match="wrong dtype"):
        wire.encode_alike([(KEY, ClockPair(1, 2))], {Kind.STEP: rows[:, :3]})
