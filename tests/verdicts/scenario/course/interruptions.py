"""The times in which processes do not run: stopped, asleep, stopped now and then, or gone."""

from __future__ import annotations

import math

import numpy as np

from stepwatch.signals.arrays import Integers, Vector
from tests.verdicts.scenario.plan import DYING, Fault, FaultKind, Scenario

CYCLE_SECONDS = 5.0
"""A process that is stopped now and then is stopped once in each cycle."""
_FOR_EVER = frozenset(
    {
        FaultKind.STOP,
        FaultKind.STOP_ALL,
        FaultKind.HANG,
        FaultKind.HANG_BUSY,
    }
    | DYING
)
STOPPED = frozenset({FaultKind.STOP, FaultKind.STOP_ALL})


class Interruptions:
    """The interruptions of a scenario's processes; a scenario of None has none."""

    def __init__(self, scenario: Scenario | None, ranks: int) -> None:
        faults = () if scenario is None else scenario.faults
        self.dead_from = np.full(ranks, math.inf)
        """When each rank (ranks,) stops its work for ever."""
        self.frozen_from = np.full(ranks, math.inf)
        """When each process (ranks,) is stopped or gone, in a collective as well."""
        self.lasting: dict[int, Fault] = {}
        self.cycles: dict[int, Fault] = {}
        self._inside = math.inf
        self.stands_from = np.full(ranks, math.inf)
        """When each rank (ranks,) reaches its last place, as far as it is known.

        A rank that hangs by itself first leaves its present collective.
        """
        for fault in faults:
            if fault.kind in _FOR_EVER:
                self.dead_from[list(fault.ranks)] = fault.onset
                self.lasting |= dict.fromkeys(fault.ranks, fault)
                if fault.kind in STOPPED | DYING:
                    self.frozen_from[list(fault.ranks)] = fault.onset
            elif fault.kind is FaultKind.STOPPED_NOW_AND_THEN:
                self.cycles |= dict.fromkeys(fault.ranks, fault)
            elif fault.kind is FaultKind.HANG_INSIDE:
                self._inside = min(self._inside, fault.onset)

    def end_of_work(self, start: Vector, seconds: Vector, ranks: Integers | None = None) -> Vector:
        """Return when work that takes `seconds` from `start` is done, for `ranks` or all ranks.

        It is infinite if the work never ends.
        """
        end = start + seconds
        if not (self.cycles or self.lasting):
            return end
        numbers = np.arange(len(start)) if ranks is None else ranks
        for index, rank in enumerate(numbers.tolist()):
            if rank in self.cycles and math.isfinite(end[index]):
                end[index] = _with_stops(
                    self.cycles[rank], float(start[index]), float(seconds[index])
                )
        # A rank without work here is interrupted in its next work.
        dead = (end > self.dead_from[numbers]) & (seconds > 0)
        end[dead] = math.inf
        came = dead & np.isfinite(start)
        self.stands_from[numbers[came]] = np.maximum(start, self.dead_from[numbers])[came]
        return end

    def hangs_inside(self, moment: float) -> bool:
        """Return whether collectives from `moment` never end, though all members are there.

        If a rank never arrives, `moment` is infinite: collectives of groups without it do end.
        """
        return math.isfinite(self._inside) and moment >= self._inside

    def stopped(self, rank: int, moment: float) -> bool:
        """Return whether a signal has stopped the process."""
        fault = self.lasting.get(rank)
        if fault is not None and fault.kind in STOPPED and moment >= fault.onset:
            return True
        cycle = self.cycles.get(rank)
        return cycle is not None and is_off(cycle, moment)

    def idle_seconds(self, rank: int, moment: float) -> float:
        """Return the seconds up to `moment` in which the process did not run."""
        fault, lost = self.lasting.get(rank), 0.0
        if fault is not None and fault.kind is not FaultKind.HANG_BUSY:
            lost += max(0.0, moment - fault.onset)
        cycle = self.cycles.get(rank)
        if cycle is not None and moment > cycle.onset:
            lasted = min(moment - cycle.onset, cycle.seconds)
            full_cycles, remainder = divmod(lasted, CYCLE_SECONDS)
            off = cycle.effect * CYCLE_SECONDS
            lost += full_cycles * off + min(remainder, off)
        return lost


def is_off(fault: Fault, moment: float) -> bool:
    """Return whether the process is stopped at `moment`: in the first part of each cycle."""
    if not fault.lasts(moment):
        return False
    return (moment - fault.onset) % CYCLE_SECONDS < fault.effect * CYCLE_SECONDS


def _with_stops(fault: Fault, start: float, seconds: float) -> float:
    """Return when `seconds` of work from `start` are done, in spite of the fault's stops.

    A process that is stopped when the fault ends goes on at once.
    """
    moment, remaining, off = start, seconds, fault.effect * CYCLE_SECONDS
    over = fault.onset + fault.seconds
    if moment < fault.onset:
        lead = min(remaining, fault.onset - moment)
        moment, remaining = moment + lead, remaining - lead
    while remaining > 0 and moment < over:
        inside = (moment - fault.onset) % CYCLE_SECONDS
        if inside < off:
            moment = min(moment + off - inside, over)
            inside = off
        run = min(remaining, CYCLE_SECONDS - inside, over - moment)
        if run <= 1e-9:
            moment += 1e-6
            continue
        moment, remaining = moment + run, remaining - run
    return moment + remaining
