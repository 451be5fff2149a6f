"""Verifies the checkpoints that ranks on this node report, beside the trainer and one at a time."""

from .options import CheckpointOptions
from .verifier import JobCheckpoints

__all__ = ["CheckpointOptions", "JobCheckpoints"]
