"""One step of a scenario as its ranks went through it: moments, waits, and where each stood."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import Op, Phase


class Place(NamedTuple):
    """Where ranks are from `at` (ranks,) on; `groups` (ranks,) numbers each one's group inside a
    collective, -1 outside."""

    at: Vector
    phase: Phase
    op: Op = Op.OTHER
    groups: tuple[int, ...] | None = None
    waits: bool = False


class Call(NamedTuple):
    """`times` collectives, sends or receives of a step: seconds (ranks,) in which ranks stood in
    them, the moment of arrival at the first; `groups` (ranks,) is -1 for those outside."""

    op: Op
    groups: tuple[int, ...]
    arrived: Vector
    exposed: Vector
    nbytes: int
    times: int = 1


@dataclass
class Step:
    """One step of all ranks; moments are seconds since the ranks began, `end` infinite for those
    that do not come to it."""

    number: int
    began: Vector
    spent: dict[str, Vector] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    exchanges: list[Call] = field(default_factory=list)
    """Sends and receives between pipeline stages: no live line counts them."""
    places: list[Place] = field(default_factory=list)
    tokens: Vector = field(default_factory=lambda: np.zeros(0))
    after_pause: bool = False
    stall: Vector | None = None
    """What a checkpoint before the step took on each rank (ranks,)."""
    saved_from: Vector | None = None
    end: Vector = field(default_factory=lambda: np.zeros(0))
