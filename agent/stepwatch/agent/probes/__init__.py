"""A probe reads one source on the node; one folder each."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from stepwatch.signals.records import Kind

Rows = np.ndarray[tuple[int], np.dtype[np.void]]


class Probe(Protocol):
    """What every probe offers.

    `kind` is the record kind that `read` returns rows of.
    """

    @property
    def name(self) -> str:
        """Short name, a metric label."""
        ...

    @property
    def kind(self) -> Kind:
        """Kind of the rows."""
        ...

    def supported(self) -> bool:
        """Whether this node has the source at all."""
        ...

    def read(self) -> Rows:
        """Read the source once.

        Raises:
            OSError: the source is there but cannot be read now; that is unknown, not healthy.
        """
        ...

    def close(self) -> None:
        """Let go of the source."""
        ...
