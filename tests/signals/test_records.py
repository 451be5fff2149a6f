"""Every field of every record has a value that means unknown and that the field can hold."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.signals.records import (
    COMMON,
    DTYPES,
    RING_KINDS,
    UNKNOWN,
    Kind,
    make_rows,
    pack,
    unknown_values,
)


@pytest.mark.parametrize("kind", list(Kind))
def test_every_field_has_its_unknown(kind: Kind) -> None:
    assert list(UNKNOWN[kind]) == list(DTYPES[kind].names or ())
    for name, unknown in UNKNOWN[kind].items():
        stored = np.array([unknown], dtype=DTYPES[kind][name])[0].item()
        assert stored == unknown or (stored != stored and unknown != unknown), name


@pytest.mark.parametrize("kind", list(Kind))
def test_an_unknown_measurement_is_never_zero(kind: Kind) -> None:
    for name, unknown in UNKNOWN[kind].items():
        if DTYPES[kind][name].kind == "f":
            assert unknown != unknown, f"{kind.name}.{name} is NaN where unknown"


def test_every_record_starts_with_the_same_fields() -> None:
    for dtype in DTYPES.values():
        assert list(dtype.names or ())[: len(COMMON)] == [name for name, _ in COMMON]


def test_kinds_keep_their_numbers() -> None:
    # Written down: a kind keeps its number for ever.
    assert {kind.name: int(kind) for kind in Kind}.items() >= {
        *(("STEP", 1), ("COLLECTIVE", 2), ("CHECKPOINT", 3), ("LIFECYCLE", 4), ("GROUP", 5)),
        *(("RANK_STATE", 6), ("HOST", 7), ("GAP", 8), ("CURSOR", 9), ("NUMERICS", 10)),
        *(("MEMORY", 11), ("DIAGNOSIS", 12), ("FLIGHT", 13), ("DEVICE", 14), ("NIC", 15)),
        *(("MICROBATCH", 16), ("AGENT", 17)),
    }


def test_what_an_agent_says_of_itself_is_no_ring_kind() -> None:
    assert Kind.AGENT not in RING_KINDS


@pytest.mark.parametrize("kind", list(Kind))
def test_fields_that_are_not_given_are_unknown(kind: Kind) -> None:
    rows = make_rows(kind, 2, 3, rank=[4, 5, 6])
    assert rows.shape == (2, 3) and (rows["rank"] == [4, 5, 6]).all()
    unknown = {**UNKNOWN[kind], "rank": 5}
    expected = np.array(tuple(unknown.values()), dtype=DTYPES[kind])
    assert rows[1, 1].tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", Kind)
def test_a_record_packed_without_numpy_has_the_same_bytes(kind: Kind) -> None:
    assert pack(kind, [unknown_values(kind)] * 2) == make_rows(kind, 2).tobytes()


def test_a_packed_text_is_cut_at_a_character_and_a_number_that_does_not_fit_is_refused() -> None:
    rows = np.frombuffer(
        pack(Kind.NIC, [unknown_values(Kind.NIC, interface="aé".encode() * 6, errors=3)]),
        DTYPES[Kind.NIC],
    )
    assert rows["interface"].tolist() == ["aéaéaéaéaéa".encode()] and rows["errors"].tolist() == [3]
    with pytest.raises(ValueError, match="NIC"):
        pack(Kind.NIC, [unknown_values(Kind.NIC, seq=-1)])
