"""Numbered shards of any format: `model-00002-of-00003.safetensors` needs its two others."""

from __future__ import annotations

import re

from stepwatch.agent.checkpoints.folder import Folder

NAME = "shards"
_SHARD = re.compile(r"(.*?)(\d{5})-of-(\d{5})(\..+)?")
_MOST_SHARDS = 10_000


def recognizes(folder: Folder) -> bool:
    """Return whether a file's name has its number and the number of all."""
    return any(_SHARD.fullmatch(name) for name in folder.files)


def check(folder: Folder) -> None:
    """Add a problem for each missing number."""
    groups = {
        (match[1], match[3], match[4] or "")
        for name in folder.files
        if (match := _SHARD.fullmatch(name))
    }
    for prefix, total, suffix in sorted(groups):
        first = 0 if f"{prefix}00000-of-{total}{suffix}" in folder.files else 1
        for number in range(first, first + min(int(total), _MOST_SHARDS)):
            name = f"{prefix}{number:05d}-of-{total}{suffix}"
            if name not in folder.files:
                folder.missing(name)
