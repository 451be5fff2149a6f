"""The jobs: one fault for some seconds, at one rank, moving from rank to rank, or in saves."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.verdicts.scenario.plan import Fault, FaultKind, Pace, Pauses, Scenario, Shape

ONSET = 60.0
AFTER_SECONDS = 240.0
"""Seconds that a job lasts after its fault."""
TURN_SECONDS = 20.0
"""Seconds that a moving fault stays at one rank."""
LASTS = (10, 20, 40, 60, 120, 300)
TIMES = (1.3, 2.0)
ONE_RANK, MOVING, IN_SAVES = "one rank", "moving", "in saves"
PLACES = (ONE_RANK, MOVING, IN_SAVES)
SAVE_SECONDS = 2.0
_SAVES = Pauses(every=10, seconds=SAVE_SECONDS)
_SLOW_RANK = 2
JOB = Scenario(
    seed=11, shape=Shape.DDP, ranks=4, nodes=2, step_seconds=0.5, pace=Pace.JITTERED, seconds=0.0
)


class Case(NamedTuple):
    """A fault with `times` the usual time, for `seconds`, at a `place`."""

    place: str
    times: float
    seconds: float

    @property
    def over(self) -> float:
        """Second in which the fault ends."""
        return ONSET + self.seconds

    def scenario(self) -> Scenario:
        """Return the job with its fault."""
        job = replace(JOB, seconds=self.over + AFTER_SECONDS, faults=self._faults())
        return replace(job, saves=_SAVES) if self.place == IN_SAVES else job

    def _faults(self) -> tuple[Fault, ...]:
        if self.place == IN_SAVES:
            longer = (self.times - 1.0) * SAVE_SECONDS
            return (self._fault(FaultKind.CHECKPOINT_STALL, _SLOW_RANK, longer, 0.0, self.seconds),)
        slow = FaultKind.SLOW_COMPUTE
        if self.place == ONE_RANK:
            return (self._fault(slow, _SLOW_RANK, self.times, 0.0, self.seconds),)
        turns = range(-(-round(self.seconds) // round(TURN_SECONDS)))
        return tuple(
            self._fault(
                slow,
                turn % JOB.ranks,
                self.times,
                turn * TURN_SECONDS,
                min(TURN_SECONDS, self.seconds - turn * TURN_SECONDS),
            )
            for turn in turns
        )

    @staticmethod
    def _fault(kind: FaultKind, rank: int, effect: float, delay: float, lasts: float) -> Fault:
        return Fault(kind, (rank,), effect=effect, onset=ONSET + delay, seconds=lasts)


def cases() -> list[Case]:
    """Return all cases."""
    return [
        Case(place, times, float(seconds))
        for place in PLACES
        for times in TIMES
        for seconds in LASTS
    ]
