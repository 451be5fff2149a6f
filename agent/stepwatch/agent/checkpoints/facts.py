"""Facts about one file of a checkpoint, for the checks across files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .result import Problem, Weight
from .sweep import Span


@dataclass(frozen=True)
class Tensor:
    """A tensor without a CRC: its bytes in the file, bytes of a row and of an element."""

    name: str
    start: int
    stop: int
    row: int
    element: int


@dataclass
class FileFacts:
    """One file: what its structure says, and what its bytes must match.

    `values` has the top-level numbers and strings of a pickle or JSON object; `keys` has the names
    of its top-level entries or of its tensors. `path` is relative, `size` in bytes, `mtime_s` Unix.
    """

    path: str
    size: int
    mtime_s: float
    format: str = "binary"
    values: Mapping[str, Any] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    spans: list[Span] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    document: Any = None
    items: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """DCP metadata: for each file the offset and length of its items."""
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The relative path of the file's folder; empty for the checkpoint itself."""
        return self.path.rpartition("/")[0]

    def add(self, reason: str, weight: Weight = Weight.DAMAGE) -> None:
        """Add a problem of this file."""
        self.problems.append(Problem(self.path, reason, weight))

    def number(self, *names: str) -> int | None:
        """Return the first top-level whole number with one of these names."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62:
                return value
        return None
