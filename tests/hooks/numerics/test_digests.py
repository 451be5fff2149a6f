"""A digest reads parameters where they lie, and no bit of them can change unseen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.hooks import Watch
from stepwatch.hooks.numerics.digests import COPIED_BYTES, _flat, digest_of_bytes, digest_of_pieces

torch = pytest.importorskip("torch", reason="parameters are torch's")


@given(st.integers(0, 40), st.integers(1, 20_000), st.data())
def test_any_flipped_bit_changes_the_digest_wherever_the_piece_begins(
    start: int, size: int, data: st.DataObject
) -> None:
    octets = torch.arange(start + size, dtype=torch.int64).mul(37).to(torch.uint8)[start:]
    digest_before = int(digest_of_bytes(octets))
    position, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    octets[position] ^= 1 << bit
    assert int(digest_of_bytes(octets)) != digest_before


def test_large_pieces_are_read_where_they_lie_and_small_ones_count_too() -> None:
    large = [torch.zeros(COPIED_BYTES + 3, dtype=torch.uint8)[3:] for _ in range(2)]
    pieces = [torch.zeros(5, dtype=torch.uint8), *large, torch.zeros(9, dtype=torch.uint8)]
    digests = {int(digest_of_pieces(pieces))}
    for piece in pieces:
        for index in (0, -1):
            piece[index] = 1
            digests.add(int(digest_of_pieces(pieces)))
            piece[index] = 0
    assert len(digests) == 1 + 2 * len(pieces), "each place weighs differently"


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24).view(4, 6).t(),
        torch.arange(48).view(2, 4, 2, 3).to(memory_format=torch.channels_last),
        torch.arange(24).view(4, 1, 6).transpose(0, 2),
        torch.arange(9)[3:],
    ],
)
def test_dense_parameters_are_not_copied(tensor: Any) -> None:
    flat = _flat(tensor)
    assert flat.data_ptr() == tensor.data_ptr()
    assert sorted(flat.tolist()) == sorted(tensor.flatten().tolist())


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(4, 8)[:, ::2],
        torch.zeros(3).expand(4, 3),
        torch.zeros(4, device="meta"),
        torch.zeros(4).to_sparse(),
    ],
)
def test_what_has_gaps_or_lies_elsewhere_is_left_out(tensor: Any) -> None:
    assert _flat(tensor) is None


def test_a_model_without_values_is_no_error(watch: Watch) -> None:
    model = torch.nn.Linear(4, 4, device="meta")
    watch.attach(model=model)
    for _ in range(20):
        with watch.step():
            pass
    assert watch.guard.errors == 0
