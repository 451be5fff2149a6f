"""A batch's tokens are counted where they are identifiable, and unknown elsewhere."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest

from stepwatch.hooks.adapters.tokens import counter, tokens_of

torch = pytest.importorskip("torch", reason="batches hold tensors of torch")

IDS = torch.ones((2, 16), dtype=torch.long)
CLASSES = torch.ones(2, dtype=torch.long)


@pytest.mark.parametrize(
    ("batch", "tokens"),
    [
        ({"input_ids": IDS, "labels": IDS}, 32),
        (UserDict({"input_ids": IDS, "attention_mask": IDS}), 32),
        ((IDS, IDS), 32),
        ([IDS, IDS], 32),
        ((IDS, CLASSES), 0),
        ((IDS.float(), IDS.float()), 0),
        ((IDS.bool(), IDS.bool()), 0),
        ((IDS, IDS.T), 0),
        ((IDS, IDS, IDS), 0),
        ({"pixel_values": IDS.float(), "labels": CLASSES}, 0),
        ({"input_ids": "text"}, 0),
        (IDS, 0),
        ([IDS], 0),
        (["a text", "its answer"], 0),
        (None, 0),
    ],
)
def test_tokens_of_a_batch(batch: Any, tokens: int) -> None:
    assert tokens_of(batch) == tokens


def test_the_user_says_how_to_count() -> None:
    assert counter(None)((IDS, IDS)) == 32
    assert counter(512)(None) == 512
    assert counter(len)([1, 2, 3]) == 3
