"""How many tokens a batch holds, for frameworks that do not count them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Tokens = Callable[[Any], int] | int | None
"""What a user gives: a function of a batch, the tokens of each batch, or None for `tokens_of`."""


def counter(tokens: Tokens) -> Callable[[Any], int]:
    """A function that counts the tokens of a batch as `tokens` says; 0 is unknown."""
    if tokens is None:
        return tokens_of
    if isinstance(tokens, int):
        return lambda _batch: tokens
    return tokens


def tokens_of(batch: Any) -> int:
    """Tokens in a batch of a language model, padding included; 0 where that is not clear.

    It is clear where `input_ids` are given, of shape (rows, tokens), or where a batch is a pair of
    integer tensors of one such shape: inputs and targets. Nothing is read from a device.
    """
    if isinstance(batch, Mapping):
        return _size(batch.get("input_ids"))
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        return 0
    tokens = _size(batch[0])
    is_pair = tokens and _size(batch[1]) and batch[0].shape == batch[1].shape
    return tokens if is_pair else 0


def _size(ids: Any) -> int:
    """Elements of a tensor of token numbers; 0 of anything else."""
    import torch

    if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
        return 0
    is_integer = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    return ids.numel() if is_integer else 0
