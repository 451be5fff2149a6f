"""Shared builders of the trainer's tests: options, small decoders, checkpoint manifests."""

from __future__ import annotations

import torch

from stepwatch.trainer.checkpoint.manifest import CheckpointManifest
from stepwatch.trainer.config.configure import configure
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.sizes import model_sizes
from stepwatch.trainer.model.decoder import DecoderStage
from stepwatch.trainer.model.initial_weights import initialise

DEBUG = model_sizes()["debug"]
LENGTH = 16


def options_of(flags: str) -> Options:
    """The options that a line of flags gives."""
    return configure(flags.split(), "test")[0]


def decoder_stage(layers: range, *, first: bool, last: bool, seed: int = 3) -> DecoderStage:
    """A stage of the debug model with its initial weights."""
    stage = DecoderStage(DEBUG, layers, first=first, last=last, length=LENGTH)
    initialise(stage, seed, DEBUG.layers)
    return stage


def debug_model() -> DecoderStage:
    """The debug model as one stage."""
    return decoder_stage(range(DEBUG.layers), first=True, last=True)


def tokens(rows: int = 2) -> torch.Tensor:
    """The same random bytes at each call, int64 of shape (rows, LENGTH)."""
    return torch.randint(0, 256, (rows, LENGTH), generator=torch.Generator().manual_seed(5))


def checkpoint_manifest(step: int = 4, **identity: object) -> CheckpointManifest:
    """A manifest without files for the checkpoint of `step`."""
    return CheckpointManifest(step, dict(identity), {"world": 1}, {"seed": 1})
