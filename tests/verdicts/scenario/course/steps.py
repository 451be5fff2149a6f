"""One step of a scenario: its ranks' moments, waits and places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stepwatch.cli.simulate.rows import Place, Places
from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import Op

Floats = np.ndarray[Any, np.dtype[np.float64]]
"""Values of one step or several: (ranks,) or (steps, ranks)."""


class Call(NamedTuple):
    """`times` collectives, sends or receives in a step, all of one kind.

    Args:
        groups: each rank's group (ranks,), -1 for ranks outside.
        arrived: the moment of arrival at the first one (ranks,).
        exposed: seconds that the ranks spent in them (ranks,).
    """

    op: Op
    groups: tuple[int, ...]
    arrived: Floats
    exposed: Floats
    nbytes: int
    times: int = 1


@dataclass
class Step:
    """One step of all ranks.

    Moments are seconds since the ranks began; `end` is infinite for ranks that do not reach it.
    """

    number: int
    began: Vector
    spent: dict[str, Vector] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    exchanges: list[Call] = field(default_factory=list)
    """Sends and receives between pipeline stages, which no live line counts."""
    places: list[Place] = field(default_factory=list)
    tokens: Vector = field(default_factory=lambda: np.zeros(0))
    after_pause: bool = False
    stall: Vector | None = None
    """Seconds of a checkpoint before the step on each rank (ranks,)."""
    saved_from: Vector | None = None
    end: Vector = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def reached(self) -> Places:
        """Where ranks are at a moment; groups are those of the layout."""
        return Places(self.places)

    def as_steps(self) -> Steps:
        """Return the step as `Steps` of one step."""
        return Steps(
            self.number,
            self.began[None],
            {name: seconds[None] for name, seconds in self.spent.items()},
            [_map_call(call, lambda values: values[None]) for call in self.calls],
            [_map_call(call, lambda values: values[None]) for call in self.exchanges],
            [(place.start[None], place[1:]) for place in self.places],
            self.tokens[None],
            self.end[None],
            self.after_pause,
        )


class Steps(NamedTuple):
    """Equal steps from `number`: the fields of `Step` with arrays (steps, ranks).

    `places` holds the moments apart from the other fields of `Place`.
    """

    number: int
    began: Any
    spent: dict[str, Any]
    calls: list[Call]
    exchanges: list[Call]
    places: list[tuple[Any, tuple[Any, ...]]]
    tokens: Any
    end: Any
    after_pause: bool = False

    def step(self, index: int) -> Step:
        """Return the step at `index`."""
        return Step(
            number=self.number + index,
            began=self.began[index],
            spent={name: seconds[index] for name, seconds in self.spent.items()},
            calls=[_map_call(call, lambda values: values[index]) for call in self.calls],
            exchanges=[_map_call(call, lambda values: values[index]) for call in self.exchanges],
            places=[Place(moments[index], *kind) for moments, kind in self.places],
            tokens=self.tokens[index],
            after_pause=self.after_pause,
            end=self.end[index],
        )

    def select(self, chosen: slice) -> Steps:
        """Return consecutive steps."""
        begin = chosen.indices(len(self.end))[0]
        return self._map_arrays(lambda values: values[chosen])._replace(number=self.number + begin)

    def _map_arrays(self, part: Callable[[Any], Any]) -> Steps:
        return self._replace(
            began=part(self.began),
            spent={name: part(seconds) for name, seconds in self.spent.items()},
            calls=[_map_call(call, part) for call in self.calls],
            exchanges=[_map_call(call, part) for call in self.exchanges],
            places=[(part(moments), kind) for moments, kind in self.places],
            tokens=part(self.tokens),
            end=part(self.end),
        )


def _map_call(call: Call, part: Callable[[Any], Any]) -> Call:
    return call._replace(arrived=part(call.arrived), exposed=part(call.exposed))
