"""What several tests of the trainer build: options from flags, and small decoders."""

from __future__ import annotations

import torch

from stepwatch.trainer.config.configure import configure
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.sizes import model_sizes
from stepwatch.trainer.model.decoder import Part
from stepwatch.trainer.model.initial_weights import initialise

DEBUG = model_sizes()["debug"]
LENGTH = 16


def options_of(flags: str) -> Options:
    """The options that a line of flags gives."""
    return configure(flags.split(), "test")[0]


def part(layers: range, *, first: bool, last: bool, seed: int = 3) -> Part:
    """A stage of the debug model with its initial weights."""
    made = Part(DEBUG, layers, first=first, last=last, length=LENGTH)
    initialise(made, seed, DEBUG.layers)
    return made


def whole() -> Part:
    """The debug model as one stage."""
    return part(range(DEBUG.layers), first=True, last=True)


def tokens(rows: int = 2) -> torch.Tensor:
    """The same random bytes at each call, int64 of shape (rows, LENGTH)."""
    return torch.randint(0, 256, (rows, LENGTH), generator=torch.Generator().manual_seed(5))
