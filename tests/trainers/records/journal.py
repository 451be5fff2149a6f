"""The ranks' own journals of a run, which hold their lines also after a kill."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, NamedTuple

from tests.trainers.programs.plan import Plan


class Journal(NamedTuple):
    """The lines of each rank, in the order in which it wrote them."""

    lines: dict[int, list[dict[str, Any]]]

    @property
    def newest_step(self) -> int:
        """The newest step that every rank has noted; -1 before the first."""
        return min((rank[-1]["step"] if rank else -1 for rank in self.lines.values()), default=-1)

    def values(self, name: str) -> dict[int, float]:
        """Return the mean over the ranks that noted a number, by step."""
        by_step: dict[int, list[float]] = defaultdict(list)
        for rank in self.lines.values():
            for line in rank:
                if name in line:
                    by_step[line["step"]].append(line[name])
        return {step: sum(numbers) / len(numbers) for step, numbers in by_step.items()}

    def saves(self) -> list[str]:
        """Return the paths that rank 0 saved."""
        return [line["saved"] for line in self.lines.get(0, []) if "saved" in line]


def read_journal(plan: Plan) -> Journal:
    """Read the journals of all ranks; a line that is still being written is left out."""
    lines = {}
    for rank in range(plan.world):
        file = plan.journal_file(rank)
        text = file.read_text() if file.exists() else ""
        lines[rank] = [json.loads(line) for line in text.split("\n")[:-1]]
    return Journal(lines)
