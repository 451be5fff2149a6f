"""Counts the tokens in a batch, for frameworks that do not count them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Tokens = Callable[[Any], int] | int | None
"""A user's token count: a function that takes a batch, a number, or None for `tokens_of`."""


def counter(tokens: Tokens) -> Callable[[Any], int]:
    """Return a function that counts a batch's tokens as `tokens` says; 0 is unknown."""
    if tokens is None:
        return tokens_of
    if isinstance(tokens, int):
        return lambda _batch: tokens
    return tokens


def tokens_of(batch: Any) -> int:
    """Return the tokens in a language model's batch, padding included; 0 if that is unclear.

    It is clear for `input_ids` with shape (rows, tokens), and for a pair of integer tensors with
    one such shape: inputs and targets. Nothing is read from a device.
    """
    if isinstance(batch, Mapping):
        return _size(batch.get("input_ids"))
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        return 0
    tokens = _size(batch[0])
    is_pair = tokens and _size(batch[1]) and batch[0].shape == batch[1].shape
    return tokens if is_pair else 0


def _size(ids: Any) -> int:
    """Return the number of elements in a tensor of token ids; 0 for anything else."""
    import torch

    if not isinstance(ids, torch.Tensor) or ids.dim() != 2:
        return 0
    is_integer = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    return ids.numel() if is_integer else 0
