"""Rows of the matrix: bins of ranks, nodes or stages, and their names. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwatch.collector.state.trackers.nodes.agents import UNKNOWN_NODE
from stepwatch.signals.arrays import Integers

from .cells import bin_edges
from .planes import Planes
from .window import Window

RANK, NODE, STAGE = "rank", "node", "stage"
BY = (RANK, NODE, STAGE)
"""Units of a row; a row holds several where they are many."""
_NAMED_NODES = 4
"""Nodes that a row names."""
_LAST = np.iinfo(np.int64).max


def ordered(planes: Planes, asked: Window) -> Integers:
    """Return the planes' columns with the ranks of a window, in the order of the rows."""
    places = np.flatnonzero((planes.last >= asked.first) & (planes.first <= asked.last))
    if asked.by == RANK:
        return places
    return places[np.argsort(_keys(planes, asked.by)[places], kind="stable")]


def row_edges(planes: Planes, places: Integers, asked: Window) -> Integers:
    """Return the edges of the rows in `places`; a row never splits a node or a stage."""
    if asked.by == RANK:
        return bin_edges(len(places), asked.rows)
    keys = _keys(planes, asked.by)[places]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else places
    return np.append(begins, len(places))[bin_edges(len(begins), asked.rows)]


def _keys(planes: Planes, by: str) -> Integers:
    """Return each column's stage, or its node's first rank; unknown ones come last."""
    if by == STAGE:
        return np.where(planes.stage < 0, _LAST, planes.stage)
    first = np.full(len(planes.nodes) + 1, _LAST)
    np.minimum.at(first, planes.node, planes.first)
    first[-1] = _LAST
    return np.asarray(first[planes.node])


def row(planes: Planes, places: Integers, by: str) -> dict[str, Any]:
    """Return the row over the planes' columns `places`: its ranks, its name, its first nodes."""
    nodes = planes.node[places]
    numbers = nodes[np.sort(np.unique(nodes, return_index=True)[1])]
    names = [planes.nodes[number] if number >= 0 else UNKNOWN_NODE for number in numbers.tolist()]
    first, last = int(planes.first[places].min()), int(planes.last[places].max())
    if by == NODE:
        words = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    elif by == STAGE:
        words = _stage_words(planes.stage[places])
    else:
        words = f"rank {first}" if first == last else f"ranks {first} to {last}"
    return {"first": first, "last": last, "words": words, "nodes": names[:_NAMED_NODES]}


def _stage_words(stages: Integers) -> str:
    least, most = int(stages.min()), int(stages.max())
    if least < 0:
        return "stage unknown"
    return f"stage {least}" if least == most else f"stages {least} to {most}"
