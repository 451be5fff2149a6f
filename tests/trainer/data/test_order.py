"""The order of sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepwatch.trainer.data.order import epoch_order, sequence_numbers


@given(st.integers(1, 200), st.integers(0, 2**32), st.integers(0, 5))
def test_an_epoch_reads_everything_once(count: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(count, seed, epoch)) == list(range(count))


@given(step=st.integers(0, 50), parts=st.sampled_from([1, 2, 4]), count=st.integers(1, 60))
def test_any_number_of_data_ranks_reads_the_same_batch(step: int, parts: int, count: int) -> None:
    expected = sequence_numbers(step, 8, 0, 1, count, 3)
    shared = [n for part in range(parts) for n in sequence_numbers(step, 8, part, parts, count, 3)]
    assert shared == expected


def test_steps_run_through_epochs_without_a_gap() -> None:
    numbers = [n for step in range(10) for n in sequence_numbers(step, 3, 0, 1, 10, 1)]
    epochs = [numbers[start : start + 10] for start in (0, 10, 20)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_the_order_is_the_same_on_every_machine() -> None:
    # Literal values: a change would silently break every resume.
    assert epoch_order(8, 1, 0).tolist() == PINNED


PINNED = [3, 5, 2, 7, 0, 6, 1, 4]
