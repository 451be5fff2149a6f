"""DeepSpeed: `latest` names a folder with a file of each rank.

`deepspeed/runtime/engine.py` of 0.19 (`_get_ckpt_name`, `_get_zero_ckpt_name`): model states for
each model-parallel rank, or with ZeRO-3 for each rank; optimizer states for each data-parallel and
model-parallel rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepwatch.agent.checkpoints.folder import Folder
from stepwatch.agent.checkpoints.result import Weight

NAME = "deepspeed"
LATEST = "latest"
_MODEL = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")
_OPTIMIZER = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_LAYER = re.compile(r"layer_(\d+)-model_(\d+)-model_states\.pt")
_STEP = re.compile(r"global_step(\d+)")
_STAGE = "ds_config.zero_optimization.stage"
_MOST_RANKS = 100_000
_SHOWN = 5


def recognizes(folder: Folder) -> bool:
    """Return whether the folder has `latest` beside folders, or files of ranks."""
    if LATEST in folder.files and folder.folders:
        return True
    return any(_MODEL.fullmatch(n) or _OPTIMIZER.fullmatch(n) for n in folder.files)


def check(folder: Folder) -> None:
    """Check that `latest` names a folder, and that each rank has its files."""
    latest = folder.files.get(LATEST)
    if latest is not None and isinstance(latest.document, str):
        tag = latest.document.strip()
        if tag not in folder.folders:
            folder.add(LATEST, f"it names {tag[:80]!r}, which is missing" if tag else "it is empty")
    model = {name: match for name in folder.files if (match := _MODEL.fullmatch(name))}
    optimizer = {name: match for name in folder.files if (match := _OPTIMIZER.fullmatch(name))}
    if model or optimizer:
        _check_ranks(folder, model, optimizer)
        _check_step(folder, model)
    layers = [(match[1], match[2]) for n in folder.files if (match := _LAYER.fullmatch(n))]
    _require_all(folder, "layer_{:02d}-model_{:02d}-model_states.pt", layers)


def _check_ranks(
    folder: Folder, model: dict[str, re.Match[str]], optimizer: dict[str, re.Match[str]]
) -> None:
    sizes = {"dp_world_size": 0, "mp_world_size": 0}
    for name in model:
        for key in sizes:
            sizes[key] = max(sizes[key], min(folder.files[name].number(key) or 0, _MOST_RANKS))
    world = (sizes["dp_world_size"], sizes["mp_world_size"])
    sharded = [(match[1], match[2]) for match in model.values() if match[1] is not None]
    whole = [("0", match[2]) for match in model.values() if match[1] is None]
    if not model:
        folder.missing("mp_rank_00_model_states.pt")
    _require_all(folder, "zero_pp_rank_{}_mp_rank_{:02d}_model_states.pt", sharded, world)
    _require_all(folder, "mp_rank_{1:02d}_model_states.pt", whole, (1, world[1]))
    pattern = "zero_pp_rank_{}_mp_rank_{:02d}_optim_states.pt"
    prefix = next((n[:5] for n in optimizer if n.startswith(("bf16_", "fp16_"))), "")
    pairs = [(match[1], match[2]) for match in optimizer.values()]
    _require_all(folder, prefix + pattern, pairs, world)
    stages = [folder.files[name].number(_STAGE) or 0 for name in model]
    if not optimizer and (sharded or any(stages)):
        folder.missing(pattern.format(0, 0))


def _require_all(
    folder: Folder,
    pattern: str,
    pairs: Iterable[tuple[str, str]],
    world: tuple[int, int] = (0, 0),
) -> None:
    """Add a problem for each missing pair up to the largest numbers, or to the recorded world."""
    present = {(int(first), int(second)) for first, second in pairs}
    if not present:
        return
    rows = max(world[0], 1 + max(first for first, _ in present))
    columns = max(world[1], 1 + max(second for _, second in present))
    if rows * columns > _MOST_RANKS:
        folder.add("", "it has too many ranks to check", Weight.UNKNOWN)
        return
    missing = [
        (row, column)
        for row in range(rows)
        for column in range(columns)
        if (row, column) not in present
    ]
    for pair in missing[:_SHOWN]:
        count = f"; {len(missing)} of {rows * columns} are" if len(missing) > 1 else ""
        folder.missing(pattern.format(*pair), count)


def _check_step(folder: Folder, model: dict[str, re.Match[str]]) -> None:
    for name in model:
        if (step := folder.files[name].number("global_steps")) is not None:
            folder.steps[name] = step
    match = _STEP.fullmatch(folder.name)
    steps = {*folder.steps.values()}
    if match and len(steps) == 1 and int(match[1]) not in steps:
        reason = f"mixed steps: the folder is of step {match[1]}, its content of {steps.pop()}"
        folder.add("", reason, Weight.UNKNOWN)
