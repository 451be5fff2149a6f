"""The plan of a soak: the fleet's size, its faults, and the rate of disturbances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

JOB = "soak"
REAL_TIME_RANKS = 8192
"""Number of ranks that two cores sustain at a step per second, sender included."""
_RANKS_PER_NODE = 8
_FAULTS = ("slow-compute", "slow-data", "slow-node")
_FAULT_SECONDS = 100.0
_LONGER = 1.35
"""Factor by which the faults below lengthen the average step."""
_FAULTY, _LASTS = 0.8, 0.625
"""The last part of a run, in which faults happen; how much of its turn each lasts."""


@dataclass(frozen=True)
class Plan:
    """One soak; all files are in `folder`.

    `kill_seconds` are the least and the most between two disturbances, `seed` determines them and
    the fleet's noise. One of several replicas is stopped or cut off for `stop_seconds`.
    """

    folder: Path
    ranks: int
    seconds: float
    step_seconds: float
    kill_seconds: tuple[float, float]
    seed: int
    store: str
    replicas: int = 1
    stop_seconds: float = 60.0

    @property
    def steps(self) -> int:
        """Steps of the fleet in `seconds`; steps with faults are longer."""
        return int(self.seconds / self.step_seconds / _LONGER)

    @property
    def nodes(self) -> int:
        """Nodes of the fleet."""
        return max(1, self.ranks // _RANKS_PER_NODE)

    @property
    def faults(self) -> list[str]:
        """One fault for each `_FAULT_SECONDS`, three at most, in turn.

        Each outlasts a restart, and a period half as long without a fault follows. In 240 steps one
        fault lasts from 48 to 168.
        """
        count = int(min(max(self.seconds / _FAULT_SECONDS, 1), len(_FAULTS)))
        turn = int(_FAULTY * self.steps / count)
        firsts = [self.steps - turn * remaining for remaining in range(count, 0, -1)]
        return [
            f"{kind}:rank={index * self.ranks // 4},step={first},until={first + int(turn * _LASTS)}"
            for index, (kind, first) in enumerate(zip(_FAULTS, firsts, strict=False), 1)
        ]

    @property
    def simulation(self) -> list[str]:
        """The options of `stepwatch simulate`."""
        sizes = {
            "--job": JOB,
            "--ranks": self.ranks,
            "--nodes": self.nodes,
            "--steps": self.steps,
            "--step-seconds": self.step_seconds,
            "--seed": self.seed,
        }
        words = [str(word) for item in sizes.items() for word in item]
        return words + [word for fault in self.faults for word in ("--fault", fault)]


def sustained_step_seconds(ranks: int) -> float:
    """The length of steps that two cores sustain, sender included."""
    return 1.0 if ranks <= REAL_TIME_RANKS else ranks / REAL_TIME_RANKS
