"""Files by rank of any trainer, such as `rank_0.pt`: all are of one step."""

from __future__ import annotations

import re

from stepwatch.agent.checkpoints.folder import Folder

NAME = "ranks"
_RANK = re.compile(r"(?:.*[-_.])?rank[-_]?\d+\D.*")
_STEPS = ("global_step", "global_steps", "iteration", "step")


def recognizes(folder: Folder) -> bool:
    """Return whether two files have the number of a rank in their names."""
    return sum(_RANK.fullmatch(name) is not None for name in folder.files) > 1


def check(folder: Folder) -> None:
    """Collect the steps of the files."""
    for name, facts in folder.files.items():
        if _RANK.fullmatch(name) and (step := facts.number(*_STEPS)) is not None:
            folder.steps[name] = step
