"""A rank's place in a mesh that the user names in one word, `pp=2,dp=4`."""

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
"""Axes with a name, and the record's axis for each; empty: the axis only takes up ranks."""


class Place(NamedTuple):
    """A rank's coordinate on each axis in a record, and each axis's size."""

    coordinates: Mapping[str, int]
    sizes: Mapping[str, int]


def read_mesh(text: str) -> dict[str, int]:
    """Return the axis sizes, in the order of the text: the slowest axis comes first.

    Raises:
        ConfigurationError: an axis is unknown or named twice, or a size is not a whole number.
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
    """Return the place of `rank` of `world` in the mesh: the last axis changes from rank to rank.

        pp=2,dp=2    rank 0 is pp 0 dp 0, rank 1 pp 0 dp 1, rank 2 pp 1 dp 0

    Raises:
        ConfigurationError: the text is not a mesh, or has another number of ranks.
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
