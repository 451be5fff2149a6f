"""One step of a scenario as its ranks went through it: moments, waits, and where each stood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stepwatch.signals.arrays import Vector
from stepwatch.signals.records import Op, Phase

Floats = np.ndarray[Any, np.dtype[np.float64]]
"""Of one step or of several: (ranks,) or (steps, ranks)."""


class Place(NamedTuple):
    """Where ranks are from `start` (ranks,) on; `groups` (ranks,) numbers each one's group inside a
    collective, -1 outside."""

    start: Vector
    phase: Phase
    op: Op = Op.OTHER
    groups: tuple[int, ...] | None = None
    waits: bool = False


class Call(NamedTuple):
    """`times` collectives, sends or receives of a step: seconds (ranks,) in which ranks stood in
    them, the moment of arrival at the first; `groups` (ranks,) is -1 for those outside."""

    op: Op
    groups: tuple[int, ...]
    arrived: Floats
    exposed: Floats
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

    def as_steps(self) -> Steps:
        """The same as several steps, of which it is the only one."""
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
    """Steps from `number` on that consist of the same: the fields of `Step`, of which each array
    has one axis more in front, (steps, ranks). Of `places` the moments stand beside the rest."""

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
        """One of them, by its place."""
        return Step(
            number=self.number + index,
            began=self.began[index],
            spent={name: seconds[index] for name, seconds in self.spent.items()},
            calls=[_call_of_step(call, index) for call in self.calls],
            exchanges=[_call_of_step(call, index) for call in self.exchanges],
            places=[Place(moments[index], *kind) for moments, kind in self.places],
            tokens=self.tokens[index],
            after_pause=self.after_pause,
            end=self.end[index],
        )

    def select(self, chosen: slice) -> Steps:
        """Some of them, as they follow each other."""
        begin = chosen.indices(len(self.end))[0]
        return self._map_arrays(lambda values: values[chosen])._replace(number=self.number + begin)

    def kind(self) -> tuple[object, ...]:
        """What steps have in common that can be put together."""
        every = [*self.calls, *self.exchanges]
        calls = [(call.op, call.groups, call.nbytes, call.times) for call in every]
        return (self.after_pause, *self.spent, *calls)

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


def together(steps: Sequence[Steps]) -> Steps:
    """Steps of one `kind` that follow each other as one; where ranks stand is left out."""
    if len(steps) == 1:
        return steps[0]
    head = steps[0]
    return Steps(
        head.number,
        np.concatenate([block.began for block in steps]),
        {name: np.concatenate([block.spent[name] for block in steps]) for name in head.spent},
        _joined([block.calls for block in steps]),
        _joined([block.exchanges for block in steps]),
        [],
        np.concatenate([block.tokens for block in steps]),
        np.concatenate([block.end for block in steps]),
        head.after_pause,
    )


def _joined(calls: Sequence[list[Call]]) -> list[Call]:
    return [
        alike[0]._replace(
            arrived=np.concatenate([call.arrived for call in alike]),
            exposed=np.concatenate([call.exposed for call in alike]),
        )
        for alike in zip(*calls, strict=True)
    ]


def _call_of_step(call: Call, step: int) -> Call:
    return Call(
        call.op, call.groups, call.arrived[step], call.exposed[step], call.nbytes, call.times
    )


def _map_call(call: Call, part: Callable[[Any], Any]) -> Call:
    return call._replace(arrived=part(call.arrived), exposed=part(call.exposed))
