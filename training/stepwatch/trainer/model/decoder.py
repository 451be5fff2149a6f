"""The decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

A layer's name holds its global index on every stage. So parameter names are unique over the
whole pipeline, and any other mesh can load a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from stepwatch.trainer.config.sizes import VOCABULARY, ModelSize

RunBody = Callable[[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Tensor]
"""Runs a layer's body and keeps its activations, or recomputes them in backward."""


def keep_activations(
    body: Callable[[Tensor, Tensor], Tensor], hidden: Tensor, angles: Tensor
) -> Tensor:
    """Run a layer's body and keep every activation."""
    return body(hidden, angles)


def rotary_angles(head_width: int, length: int, base: float) -> Tensor:
    """Return the rotary positions' cosines and sines, float32, shape (2, length, head_width / 2).

    The frequencies follow RoFormer, equation 15 (https://arxiv.org/abs/2104.09864).
    """
    exponents = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = torch.outer(torch.arange(length, dtype=torch.float64), base**-exponents)
    return torch.stack((angles.cos(), angles.sin())).float()


def rotate(heads: Tensor, angles: Tensor) -> Tensor:
    """Rotate `heads` (batch, heads, length, head_width) by their positions, in their own dtype."""
    cos, sin = angles.to(heads.dtype)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Attention(nn.Module):
    """Causal grouped-query attention over the whole sequence."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.head_width = size.head_width
        inner, shared = size.heads * size.head_width, size.kv_heads * size.head_width
        self.query = nn.Linear(size.width, inner, bias=False)
        self.key = nn.Linear(size.width, shared, bias=False)
        self.value = nn.Linear(size.width, shared, bias=False)
        self.output = nn.Linear(inner, size.width, bias=False)

    def _heads(self, projected: Tensor) -> Tensor:
        batch, length, _ = projected.shape
        # Under tensor parallelism a rank holds only some heads: -1 counts them.
        return projected.view(batch, length, -1, self.head_width).transpose(1, 2)

    def forward(self, hidden: Tensor, angles: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        query = rotate(self._heads(self.query(hidden)), angles)
        key = rotate(self._heads(self.key(hidden)), angles)
        value = self._heads(self.value(hidden))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """SwiGLU (https://arxiv.org/abs/2002.05202)."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.feed_forward, bias=False)
        self.up = nn.Linear(size.width, size.feed_forward, bias=False)
        self.down = nn.Linear(size.feed_forward, size.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        return self.down(F.silu(self.gate(hidden)) * self.up(hidden))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """One pre-norm decoder layer with two residual branches."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(size.width, eps=1e-5)
        self.attention = Attention(size)
        self.feed_forward_norm = nn.RMSNorm(size.width, eps=1e-5)
        self.feed_forward = FeedForward(size)
        self.run_body: RunBody = keep_activations

    def _body(self, hidden: Tensor, angles: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.attention_norm(hidden), angles)
        return hidden + self.feed_forward(self.feed_forward_norm(hidden))  # type: ignore[no-any-return]

    def forward(self, hidden: Tensor, angles: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        return self.run_body(self._body, hidden, angles)


class DecoderStage(nn.Module):
    """One pipeline stage's layers, with the embedding on the first and the head on the last.

    Args:
        size: the whole model's size.
        layers: global indices of this stage's layers.
        first, last: whether this stage embeds bytes, and whether it ends in logits.
        length: tokens per sequence.
    """

    angles: Tensor

    def __init__(
        self, size: ModelSize, layers: Sequence[int], *, first: bool, last: bool, length: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, size.width) if first else None
        self.layers = nn.ModuleDict({str(index): Layer(size) for index in layers})
        self.norm = nn.RMSNorm(size.width, eps=1e-5) if last else None
        self.head = nn.Linear(size.width, VOCABULARY, bias=False) if last else None
        self.autocast: torch.dtype | None = None
        angles = rotary_angles(size.head_width, length, size.rotary_base)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Map bytes (batch, length) or hidden (batch, length, width) to hidden or to logits."""
        if self.autocast is None:
            return self._forward(hidden)
        with torch.autocast(hidden.device.type, self.autocast):
            return self._forward(hidden)

    def _forward(self, hidden: Tensor) -> Tensor:
        if self.embedding is not None:
            hidden = self.embedding(hidden)
        for layer in self.layers.values():
            hidden = layer(hidden, self.angles)
        if self.norm is not None and self.head is not None:
            hidden = self.head(self.norm(hidden))
        return hidden


def next_byte_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats, float32 scalar; logits (batch, length, 256), targets int64."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))
