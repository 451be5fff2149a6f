"""A language model small enough for a few milliseconds a step."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, CONTEXT, WIDTH, BATCH = 64, 32, 32, 4
RATE, WARM_UP_STEPS = 3e-3, 100
"""The learning rate, and the steps in which it rises to that."""


class Block(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads = nn.Linear(WIDTH, 3 * WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """States of shape (batch, context, width)."""
        query, key, value = self.heads(self.first(x)).chunk(3, dim=-1)
        x = x + functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        changed: Tensor = x + self.narrow(functional.gelu(self.wide(self.second(x))))
        return changed


class LanguageModel(nn.Module):
    """Predicts the next token; the same weights in each rank and run."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean loss of tokens and targets of shape (batch, context)."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return loss_of(self.head(x), targets)


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of logits (batch, context, vocabulary)."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def warm_up(step: int) -> float:
    """Return the share of the learning rate in a step: it rises in each of the first ones."""
    return min(1.0, (step + 1) / WARM_UP_STEPS)


def texts(rank: int, count: int) -> Tensor:
    """Token rows of one rank, of shape (count, context + 1), which a model learns in few steps."""
    generator = torch.Generator().manual_seed(1000 + rank)
    starts = torch.randint(0, VOCABULARY, (count, 1), generator=generator)
    return (starts + torch.arange(CONTEXT + 1)) % VOCABULARY
