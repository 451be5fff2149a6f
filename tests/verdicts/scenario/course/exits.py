"""How the processes of a scenario end: the first exit, and the exits that follow from it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stepwatch.signals.arrays import Vector
from tests.verdicts.scenario.history import BETWEEN_SECONDS
from tests.verdicts.scenario.plan import DYING, Fault, FaultKind, Scenario

KILLED, TERMINATED, FAILED = 137, 143, 1
LAUNCHER_SECONDS = 3.0
"""From a rank's failure to the end of the others: its launcher notices and ends them."""
RAISED_SECONDS, LOST_SECONDS = 0.5, 20.0
"""From a process's end, and a node's, to the errors of its peers' collectives."""
_OWN_ERROR = "ValueError: could not convert string to float: 'nan,'"
_PEER_ERROR = "RuntimeError: Connection closed by peer [10.0.0.{}]:31337"


class Exits(NamedTuple):
    """The ends of the processes and nodes.

    Args:
        end: when each process ends (ranks,); infinite if it does not.
        code: exit codes (ranks,).
        failure: the failure that each rank reports; empty without one.
        lost: when each node is lost (nodes,).
    """

    end: Vector
    code: Vector
    failure: list[str]
    lost: Vector


def exits_of(scenario: Scenario) -> Exits:
    """Return the ends of the scenario's processes."""
    count = scenario.ranks
    exits = Exits(
        np.full(count, math.inf),
        np.full(count, -1.0),
        [""] * count,
        np.full(scenario.nodes, math.inf),
    )
    if scenario.ends is not None:
        exits.end[:] = scenario.seconds - BETWEEN_SECONDS
        exits.code[:] = 0
    dying = [fault for fault in scenario.faults if fault.kind in DYING]
    for fault in sorted(dying, key=lambda fault: fault.onset)[:1]:
        _end(scenario, fault, exits)
        _end_peers(scenario, fault, exits)
    return exits


def _end(scenario: Scenario, fault: Fault, exits: Exits) -> None:
    """End the ranks of the fault."""
    codes = {FaultKind.KILL: KILLED, FaultKind.EXIT_EARLY: 0, FaultKind.EXCEPTION: FAILED}
    for rank in fault.ranks:
        exits.end[rank] = fault.onset
        exits.code[rank] = codes.get(fault.kind, -1)
        if fault.kind is FaultKind.EXCEPTION:
            exits.failure[rank] = _OWN_ERROR
    if fault.kind is FaultKind.NODE_LOST:
        exits.lost[fault.node] = fault.onset


def _end_peers(scenario: Scenario, fault: Fault, exits: Exits) -> None:
    peers = [rank for rank in range(scenario.ranks) if rank not in fault.ranks]
    lost = fault.kind is FaultKind.NODE_LOST
    if scenario.peers_raise:
        delay = LOST_SECONDS if lost else RAISED_SECONDS
        for index, rank in enumerate(peers):
            # Errors follow each other: the first one closes more connections.
            exits.end[rank] = fault.onset + delay + scenario.step_seconds + 0.05 * index
            exits.code[rank] = FAILED
            exits.failure[rank] = _PEER_ERROR.format(scenario.node_of(fault.ranks[0]))
    elif fault.kind in (FaultKind.KILL, FaultKind.EXCEPTION):
        exits.end[peers] = fault.onset + LAUNCHER_SECONDS
        exits.code[peers] = TERMINATED
