"""Layouts: each module recognizes a folder by its files, and checks that it is complete."""

from __future__ import annotations

from typing import Protocol

from stepwatch.agent.checkpoints.folder import Folder

from . import dcp, deepspeed, huggingface, lightning, megatron, ranks, shards, trainer


class Layout(Protocol):
    """Interface of a layout's module."""

    @property
    def NAME(self) -> str:
        """The layout's name in reports."""
        ...

    def recognizes(self, folder: Folder) -> bool:
        """Return whether a folder has this layout."""
        ...

    def check(self, folder: Folder) -> None:
        """Add the folder's problems and steps."""
        ...


LAYOUTS: tuple[Layout, ...] = (
    trainer,
    huggingface,
    deepspeed,
    megatron,
    lightning,
    dcp,
    shards,
    ranks,
)
"""In the order in which a report names them; a folder may have several."""
FILE_LAYOUTS: tuple[Layout, ...] = (lightning,)
"""Layouts of a single file."""
PARTS = frozenset({shards.NAME, ranks.NAME})
"""Layouts that a report does not name: they are parts of others."""
