"""Lightning: a `.ckpt` file by `torch.save`, or a folder with sharded state beside `meta.pt`.

`lightning/pytorch/trainer/connectors/checkpoint_connector.py` of 2.6 (`dump_checkpoint`).
"""

from __future__ import annotations

import re

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.folder import Folder
from stepwatch.agent.checkpoints.result import Weight

NAME = "lightning"
_VERSION = "pytorch-lightning_version"
_REQUIRED = ("state_dict", "global_step", "epoch", "loops")
_STEP = re.compile(r"(?:^|[-_])step=(\d+)")


def recognizes(folder: Folder) -> bool:
    """Return whether a file holds Lightning's version, or the folder is a sharded checkpoint."""
    return _is_sharded(folder) or any(_is_checkpoint(facts) for facts in folder.files.values())


def _is_sharded(folder: Folder) -> bool:
    return folder.name.endswith(".ckpt") and ".metadata" in folder.files


def _is_checkpoint(facts: FileFacts) -> bool:
    return _VERSION in facts.keys


def check(folder: Folder) -> None:
    """Check that each checkpoint has its parts, and the step that its name says."""
    if _is_sharded(folder):
        if "meta.pt" not in folder.files:
            folder.missing("meta.pt")
        elif (step := folder.files["meta.pt"].number("global_step")) is not None:
            folder.steps["meta.pt"] = step
        return
    for name, facts in folder.files.items():
        if not _is_checkpoint(facts):
            continue
        for key in _REQUIRED:
            if key not in facts.keys:
                folder.add(name, f"it holds no {key}")
        step, match = facts.number("global_step"), _STEP.search(name)
        if step is not None and match and int(match[1]) != step:
            folder.add(name, f"mixed steps: its content is of step {step}", Weight.UNKNOWN)
