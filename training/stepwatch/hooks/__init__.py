"""The hooks in a trainer: `Watch` sees steps, phases, collectives, stages and checkpoints.

A hook never raises into the trainer, never synchronises a device and costs microseconds. Importing
this package imports neither torch nor any server part.
"""

from .watch import Watch

__all__ = ["Watch"]
