"""Names and order of checkpoints under one directory.

step-00000040/      published: complete when it appeared, because it was renamed into place
.saving-00000060/   being written; worthless after a crash
.leaving-00000020/  being deleted
quarantine/         found bad, kept for the post-mortem, each with the reason beside it
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

QUARANTINE = "quarantine"
VERIFIED_NAME = "VERIFIED"
_PUBLISHED = re.compile(r"step-(\d{8,12})")
_UNFINISHED = re.compile(r"\.(saving|leaving)-\d{8,12}")


def published_path(root: Path, step: int) -> Path:
    """Where the checkpoint of `step` lies once it is complete."""
    return root / f"step-{step:08d}"


def saving_path(root: Path, step: int) -> Path:
    """Where it is written."""
    return root / f".saving-{step:08d}"


def published_steps(root: Path) -> list[int]:
    """Steps of all published checkpoints, newest first; none where the directory is missing."""
    if not root.is_dir():
        return []
    found = (_PUBLISHED.fullmatch(path.name) for path in root.iterdir())
    return sorted((int(match[1]) for match in found if match), reverse=True)


def remove_unfinished(root: Path) -> list[str]:
    """Delete what a crash left half written or half deleted; returns the names."""
    if not root.is_dir():
        return []
    leftovers = [path for path in root.iterdir() if _UNFINISHED.fullmatch(path.name)]
    for path in leftovers:
        shutil.rmtree(path, ignore_errors=True)
    return sorted(path.name for path in leftovers)


def remove_checkpoint(root: Path, step: int) -> None:
    """Take a checkpoint out of sight at once, then delete it.

    Raises:
        OSError: it cannot be renamed.
    """
    leaving = root / f".leaving-{step:08d}"
    published_path(root, step).rename(leaving)
    shutil.rmtree(leaving, ignore_errors=True)


def quarantine(root: Path, step: int, reason: str) -> Path:
    """Move a bad checkpoint aside and write the reason beside it; returns where it lies now.

    Raises:
        OSError: the directory cannot be written.
    """
    aside = root / QUARANTINE
    aside.mkdir(exist_ok=True)
    number = 0
    while (target := aside / f"step-{step:08d}-{number}").exists():
        number += 1
    published_path(root, step).rename(target)
    target.with_suffix(".reason.txt").write_text(reason + "\n", encoding="utf-8")
    return target


def is_marked_verified(root: Path, step: int) -> bool:
    """Whether the checkpoint was read back and found good after it was written."""
    return (published_path(root, step) / VERIFIED_NAME).is_file()


def expendable_steps(steps: list[int], verified: set[int], keep: int) -> list[int]:
    """Which checkpoints retention gives up: all but the newest `keep` and the newest verified."""
    ordered = sorted(steps, reverse=True)
    kept = set(ordered[: max(1, keep)])
    newest_verified = max((step for step in ordered if step in verified), default=None)
    return [step for step in ordered if step not in kept and step != newest_verified]
