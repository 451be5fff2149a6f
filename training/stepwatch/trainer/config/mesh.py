"""The mesh pp x dp_replicate x dp_shard x tp: its shape and a rank's coordinates in it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stepwatch.signals.errors import UsageError

AXES = ("pp", "dp_replicate", "dp_shard", "tp")
"""Slowest to fastest varying: consecutive ranks are in one tensor-parallel group."""


@dataclass(frozen=True)
class MeshShape:
    """Ranks along each axis; an axis with size 1 is unused."""

    pp: int = 1
    dp_replicate: int = 1
    dp_shard: int = 1
    tp: int = 1

    @property
    def world(self) -> int:
        """Ranks in the whole mesh."""
        return self.pp * self.dp_replicate * self.dp_shard * self.tp

    @property
    def data_ranks(self) -> int:
        """Ranks that read different data."""
        return self.dp_replicate * self.dp_shard

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Ranks along each axis in `AXES`."""
        return (self.pp, self.dp_replicate, self.dp_shard, self.tp)

    def coordinates_of(self, rank: int) -> MeshCoordinates:
        """Return a rank's coordinates, 0 <= rank < world."""
        coordinates = []
        for size in reversed(self.sizes):
            rank, coordinate = divmod(rank, size)
            coordinates.append(coordinate)
        return MeshCoordinates(self, *reversed(coordinates))

    @property
    def flag(self) -> str:
        """The shape as text for `parse_mesh`."""
        return ",".join(f"{axis}={size}" for axis, size in zip(AXES, self.sizes, strict=True))

    def __str__(self) -> str:
        used = [f"{axis}={size}" for axis, size in zip(AXES, self.sizes, strict=True) if size > 1]
        return ",".join(used) or "one process"


@dataclass(frozen=True)
class MeshCoordinates:
    """One rank's coordinates in a mesh."""

    shape: MeshShape
    pp: int
    dp_replicate: int
    dp_shard: int
    tp: int

    @property
    def data_rank(self) -> int:
        """The slice that this rank reads from every batch, 0 <= data_rank < shape.data_ranks."""
        return self.dp_replicate * self.shape.dp_shard + self.dp_shard

    @property
    def index(self) -> dict[str, int]:
        """Coordinate along each axis."""
        return {axis: getattr(self, axis) for axis in AXES}

    @property
    def size(self) -> dict[str, int]:
        """Ranks along each axis."""
        return dict(zip(AXES, self.shape.sizes, strict=True))


def parse_mesh(text: str) -> MeshShape:
    """Read `pp=2,dp_shard=2`.

    Raises:
        UsageError: an unknown axis, an axis given twice, or a size that is not a whole number >= 1.
    """
    axes = {field.name for field in fields(MeshShape)}
    sizes: dict[str, int] = {}
    for item in filter(None, text.replace(" ", "").split(",")):
        axis, _, size = item.partition("=")
        if axis not in axes or axis in sizes or not size.isdecimal() or not 1 <= int(size) <= 10**6:
            raise UsageError(
                f"mesh entry {item!r}: write axis=size once each, axes are {', '.join(AXES)}"
            )
        sizes[axis] = int(size)
    return MeshShape(**sizes)
