"""The black box: one memory-mapped ring per rank, written by hooks, read by the agent.

    header   identity, clock pair, live lines, head, layout of slots   4096 bytes
    slots    fixed-size records, each with its number and a CRC        capacity x 128 bytes

The writer makes no system call and never waits. A reader may start late, die and restart; it counts
records that it missed (`overruns`) and records that it cannot trust (`torn`).
"""

from stepwatch.signals.places.directories import (
    cannot_create,
    closed_directories,
    own_directory,
    user_directories,
)

from .copies import copy_path
from .described import LayoutCondition
from .files import FileCondition
from .layout import DEFAULT_CAPACITY, CollectiveLine, DeviceLine, Identity, LiveLine
from .owners import is_elsewhere, launcher_lives, owner_ended, owner_lives
from .reader import RingReader, RingRows, find_rings
from .slots import RingSlots, rows_of
from .writer import RingWriter

__all__ = [
    "DEFAULT_CAPACITY",
    "CollectiveLine",
    "DeviceLine",
    "FileCondition",
    "Identity",
    "LayoutCondition",
    "LiveLine",
    "RingReader",
    "RingRows",
    "RingSlots",
    "RingWriter",
    "cannot_create",
    "closed_directories",
    "copy_path",
    "find_rings",
    "is_elsewhere",
    "launcher_lives",
    "own_directory",
    "owner_ended",
    "owner_lives",
    "rows_of",
    "user_directories",
]
