"""Megatron-LM: a tracker file names the newest of the folders `iter_0000100`.

`megatron/training/checkpointing.py` (`get_checkpoint_name`): a folder for each tensor, pipeline and
expert rank, `mp_rank_01_003_000`, with `model_optim_rng.pt` and, with a distributed optimizer,
`distrib_optim.pt`. `torch_dist` checkpoints have DCP's files instead.
"""

from __future__ import annotations

import re

from stepwatch.agent.checkpoints.folder import Folder

NAME = "megatron"
TRACKER = "latest_checkpointed_iteration.txt"
_ITERATION = re.compile(r"iter_(\d{7,})")
_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?")
_MODEL = ("model_optim_rng.pt", "model_rng.pt")
_MOST_RANKS = 100_000
_SHOWN = 5


def recognizes(folder: Folder) -> bool:
    """Return whether the folder has the tracker, or folders of ranks, or is such a folder."""
    return (
        TRACKER in folder.files
        or any(_RANK.fullmatch(name) for name in folder.folders)
        or _RANK.fullmatch(folder.name) is not None
        or (_ITERATION.fullmatch(folder.name) is not None and "common.pt" in folder.files)
    )


def check(folder: Folder) -> None:
    """Check the tracker's folder, the folders of all ranks, and the files in each."""
    tracker = folder.files.get(TRACKER)
    if tracker is not None and isinstance(tracker.document, str):
        _check_tracker(folder, tracker.document.strip())
    ranks = [match for name in sorted(folder.folders) if (match := _RANK.fullmatch(name))]
    if ranks:
        _check_ranks(folder, ranks)
    if _RANK.fullmatch(folder.name) and not any(name in folder.files for name in _MODEL):
        folder.missing(_MODEL[0])
    for name, facts in folder.files.items():
        if (step := facts.number("iteration")) is not None and name.endswith(".pt"):
            folder.steps[name] = step
    for name in folder.place.split("/")[-2:]:
        if folder.steps and (match := _ITERATION.fullmatch(name)):
            folder.steps["the folder's name"] = int(match[1])


def _check_tracker(folder: Folder, text: str) -> None:
    name = "release" if text == "release" else f"iter_{int(text):07d}" if text.isdecimal() else ""
    if not name:
        folder.add(TRACKER, f"it holds no iteration: {text[:40]!r}")
    elif name not in folder.folders:
        folder.add(TRACKER, f"it names {name}, which is missing")


def _check_ranks(folder: Folder, ranks: list[re.Match[str]]) -> None:
    """Add a problem for each missing folder: ranks are a box of tensor, pipeline and expert."""
    present = {tuple(int(part) for part in match.groups() if part is not None) for match in ranks}
    if len({len(place) for place in present}) > 1:
        folder.add(ranks[-1][0], "its name has other parts than the other ranks'")
        return
    expected: list[tuple[int, ...]] = [()]
    for size in (1 + max(axis) for axis in zip(*present, strict=True)):
        expected = [(*place, number) for place in expected for number in range(size)]
        if len(expected) > _MOST_RANKS:
            return
    widths = [len(part) for part in ranks[0].groups() if part is not None]
    for place in [place for place in expected if place not in present][:_SHOWN]:
        numbers = [f"{n:0{width}d}" for n, width in zip(place, widths, strict=True)]
        folder.missing(f"mp_rank_{'_'.join(numbers)}")
