"""Where a rank lies in a mesh that the user names in one word, `pp=2,dp=4`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from stepwatch.signals.errors import ConfigurationError

RECORDED = {
    "pp": "pp",
    "dp": "dp_replicate",
    "dp_replicate": "dp_replicate",
    "dp_shard": "dp_shard",
    "fsdp": "dp_shard",
    "tp": "tp",
    "cp": "",
    "ep": "",
}
"""Axes that may be named, and the axis of a record that each is; empty: it only takes up ranks."""


class Place(NamedTuple):
    """A rank's coordinate on each axis of a record, and the size of each axis."""

    coordinates: Mapping[str, int]
    sizes: Mapping[str, int]


def read_mesh(text: str) -> dict[str, int]:
    """Sizes of the axes, in the order they are named: the one that changes slowest comes first.

    Raises:
        ConfigurationError: an axis is unknown or named twice, or a size is no whole number.
    """
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = (piece.strip() for piece in part.partition("="))
        if name not in RECORDED or not size.isascii() or not size.isdigit() or not int(size):
            raise ConfigurationError(
                f"mesh {text!r}: {part.strip()!r} is not an axis and its size; for example "
                f"pp=2,dp=4 (axes: {', '.join(RECORDED)}; the slowest first)"
            )
        if RECORDED[name] and RECORDED[name] in map(RECORDED.get, sizes):
            raise ConfigurationError(f"mesh {text!r}: {name} is named twice")
        sizes[name] = int(size)
    return sizes


def place_in(text: str, rank: int, world: int) -> Place:
    """Where `rank` of `world` lies in the mesh: the last axis changes from rank to rank.

        pp=2,dp=2    rank 0 is pp 0 dp 0, rank 1 pp 0 dp 1, rank 2 pp 1 dp 0

    Raises:
        ConfigurationError: the text is no mesh, or one of another number of ranks.
    """
    sizes = read_mesh(text)
    if math.prod(sizes.values()) != world:
        ranks = math.prod(sizes.values())
        raise ConfigurationError(f"mesh {text!r} is of {ranks} ranks, and the job has {world}")
    index, size, remainder = {}, {}, rank
    for name in reversed(sizes):
        remainder, coordinate = divmod(remainder, sizes[name])
        if RECORDED[name]:
            index[RECORDED[name]], size[RECORDED[name]] = coordinate, sizes[name]
    return Place(index, size)
