"""The layout of the checkpoint directory.

step-00000040/      published and complete: the directory got this name by a rename
.saving-00000060/   being written; a crash leaves it, and the next start deletes it
.leaving-00000020/  being deleted
quarantine/         invalid checkpoints, each with its reason in a file with the same name
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
    """Return the path of `step`'s checkpoint once it is complete."""
    return root / f"step-{step:08d}"


def saving_path(root: Path, step: int) -> Path:
    """Return the path of `step`'s checkpoint while it is written."""
    return root / f".saving-{step:08d}"


def published_steps(root: Path) -> list[int]:
    """Return the steps of all published checkpoints, newest first; empty without a directory."""
    if not root.is_dir():
        return []
    matches = (_PUBLISHED.fullmatch(path.name) for path in root.iterdir())
    return sorted((int(match[1]) for match in matches if match), reverse=True)


def remove_unfinished(root: Path) -> list[str]:
    """Delete checkpoints that a crash left half written or half deleted; return their names."""
    if not root.is_dir():
        return []
    leftovers = [path for path in root.iterdir() if _UNFINISHED.fullmatch(path.name)]
    for path in leftovers:
        shutil.rmtree(path, ignore_errors=True)
    return sorted(path.name for path in leftovers)


def remove_checkpoint(root: Path, step: int) -> None:
    """Unpublish a checkpoint by a rename, then delete it.

    Raises:
        OSError: it cannot be renamed.
    """
    leaving = root / f".leaving-{step:08d}"
    published_path(root, step).rename(leaving)
    shutil.rmtree(leaving, ignore_errors=True)


def quarantine(root: Path, step: int, reason: str) -> Path:
    """Move an invalid checkpoint to the quarantine and write the reason; return its new path.

    Raises:
        OSError: the directory cannot be written.
    """
    directory = root / QUARANTINE
    directory.mkdir(exist_ok=True)
    number = 0
    while (target := directory / f"step-{step:08d}-{number}").exists():
        number += 1
    published_path(root, step).rename(target)
    target.with_suffix(".reason.txt").write_text(reason + "\n", encoding="utf-8")
    return target


def is_marked_verified(root: Path, step: int) -> bool:
    """Return whether the checkpoint was verified after it was written."""
    return (published_path(root, step) / VERIFIED_NAME).is_file()


def steps_to_delete(steps: list[int], verified: set[int], keep: int) -> list[int]:
    """Return the steps to delete: all but the newest `keep` and the newest verified one."""
    ordered = sorted(steps, reverse=True)
    retained = set(ordered[: max(1, keep)])
    newest_verified = max((step for step in ordered if step in verified), default=None)
    return [step for step in ordered if step not in retained and step != newest_verified]
