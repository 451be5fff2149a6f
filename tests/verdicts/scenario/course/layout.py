"""Groups of a scenario's ranks, by its shape."""

from __future__ import annotations

from collections.abc import Sequence

from tests.verdicts.scenario.plan import Scenario, Shape


class Layout:
    """Groups of a scenario's ranks: their members, and each rank's group in each family."""

    def __init__(self, scenario: Scenario) -> None:
        self.members: list[tuple[int, ...]] = []
        count = scenario.ranks
        self.world = self._family([tuple(range(count))], count)
        pairs = [(rank, rank + 1) for rank in range(0, count, 2)]
        self.pairs = self._family(pairs, count) if scenario.shape is Shape.TENSOR else None
        across = [tuple(range(first, count, 2)) for first in (0, 1)]
        self.across = (
            self._family(across, count) if scenario.shape is Shape.TENSOR and count > 2 else None
        )
        self.stages = (4 if count >= 4 else 2) if scenario.shape is Shape.PIPELINE else 1
        per_stage = count // self.stages
        stages = [
            tuple(range(stage * per_stage, (stage + 1) * per_stage)) for stage in range(self.stages)
        ]
        self.replicas = self._family(stages, count) if self.stages > 1 and per_stage > 1 else None
        self.replica = tuple(
            self._replica(rank, per_stage, scenario.shape) for rank in range(count)
        )
        """Number of each rank's replica; the ranks in a replica work on the same sequences."""
        links = (
            [(rank, rank + per_stage) for rank in range(count - per_stage)]
            if self.stages > 1
            else []
        )
        self.previous_stage = self._family(links, count, 1)
        """Each rank's group (ranks,) with its peer in the previous stage; `next_stage` likewise."""
        self.next_stage = self._family(links, count, 0)

    def stage_of(self, rank: int) -> int:
        """Return the pipeline stage of a rank."""
        return rank * self.stages // len(self.world)

    def _replica(self, rank: int, per_stage: int, shape: Shape) -> int:
        if shape is Shape.PIPELINE:
            return rank % per_stage
        return rank // 2 if shape is Shape.TENSOR else rank

    def _family(
        self, groups: Sequence[tuple[int, ...]], count: int, end: int | None = None
    ) -> tuple[int, ...]:
        """Return each rank's group, -1 without one; `end` selects one place of each group."""
        numbers = [-1] * count
        for group in groups:
            if group not in self.members:
                self.members.append(group)
            for rank in group if end is None else [group[end]]:
                numbers[rank] = self.members.index(group)
        return tuple(numbers)
