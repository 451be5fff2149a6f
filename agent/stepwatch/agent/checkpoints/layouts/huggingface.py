"""Hugging Face: a folder by `save_pretrained` or by transformers' `Trainer`.

`transformers/trainer.py` of 5.23 (`_save_checkpoint`): the model, then optimizer, scheduler and
random states unless `save_only_model`, then `trainer_state.json`.
"""

from __future__ import annotations

import re
from typing import Any

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.folder import Folder
from stepwatch.agent.checkpoints.result import Weight

NAME = "huggingface"
STATE = "trainer_state.json"
_INDEX = ".index.json"
_MARKS = frozenset(
    {STATE, "model.safetensors", "pytorch_model.bin", "adapter_model.safetensors"}
    | {"adapter_model.bin", "adapter_config.json"}
)
_FOLDER = re.compile(r"checkpoint-(\d+)")
_RANDOM = re.compile(r"rng_state_(\d+)\.pth")
_MODELS = (".safetensors", "pytorch_model.bin", "adapter_model.bin", "pytorch_model.pt")
_SHOWN = 5


def recognizes(folder: Folder) -> bool:
    """Return whether the folder has a file with one of transformers' names."""
    return any(name in _MARKS or name.endswith(_INDEX) for name in folder.files)


def check(folder: Folder) -> None:
    """Check indexes against shards, and the trainer's state."""
    for name, facts in folder.files.items():
        if name.endswith(_INDEX) and facts.document is not None:
            _check_index(folder, facts)
    if "adapter_config.json" in folder.files and not any(
        name.startswith("adapter_model.") for name in folder.files
    ):
        folder.missing("adapter_model.safetensors")
    if STATE in folder.files:
        _check_state(folder, folder.files[STATE])
    elif _FOLDER.fullmatch(folder.name) and _resumable(folder):
        folder.missing(STATE, ": the save did not end")


def _resumable(folder: Folder) -> list[str]:
    """Return the files and folders that only a resume needs."""
    names = [*folder.files, *folder.folders]
    return [
        n for n in names if n.startswith(("optimizer", "scheduler.", "rng_state", "global_step"))
    ]


def _check_index(folder: Folder, facts: FileFacts) -> None:
    """Compare an index's tensors with those of the shards."""
    match facts.document:
        case {"weight_map": {**weight_map}}:
            pass
        case _:
            folder.add(facts.name, "it has no weight_map")
            return
    shards: dict[str, list[str]] = {}
    for tensor, shard in weight_map.items():
        shards.setdefault(str(shard), []).append(str(tensor))
    if not shards:
        folder.add(facts.name, "its weight_map is empty")
    for shard, tensors in sorted(shards.items()):
        stored = folder.files.get(shard)
        if stored is None:
            folder.missing(shard, f"; {facts.name} names it")
        elif stored.keys and (lost := [name for name in tensors if name not in stored.keys]):
            folder.add(shard, f"{len(lost)} of its {len(tensors)} tensors are missing: {lost[0]}")


def _check_state(folder: Folder, facts: FileFacts) -> None:
    """Check the step, and that the files of a resume are all there or all left out."""
    if facts.document is None:
        return
    if (step := facts.number("global_step")) is None:
        folder.add(STATE, "it has no global_step")
    else:
        folder.steps[STATE] = step
        if match := _FOLDER.fullmatch(folder.name):
            folder.steps["the folder's name"] = int(match[1])
    if not any(name.endswith(_MODELS) or _is_model_shard(name) for name in folder.files) and not (
        folder.folders
    ):
        folder.missing("model.safetensors")
    _check_resume(folder)


def _is_model_shard(name: str) -> bool:
    return name.startswith("pytorch_model") and name.endswith(".bin")


def _check_resume(folder: Folder) -> None:
    stored = _resumable(folder)
    if not stored:
        if _setting(folder, "save_only_model") is False:
            folder.missing("optimizer.pt")
        else:
            folder.add(STATE, "only the model is saved: a resume starts its optimizer from zero",
                       Weight.NOTICE)  # fmt: skip
        return
    sharded = any(name.startswith(("global_step", "optimizer_")) for name in folder.folders)
    if not sharded and not any(name.startswith("optimizer.") for name in folder.files):
        folder.missing("optimizer.pt")
    if not sharded and "scheduler.pt" not in folder.files:
        folder.missing("scheduler.pt")
    ranks = {int(match[1]) for name in folder.files if (match := _RANDOM.fullmatch(name))}
    if not ranks and "rng_state.pth" not in folder.files:
        folder.missing("rng_state.pth")
    if ranks:
        # A folder on a node's own disk has this node's ranks only.
        for rank in sorted({*range(min(ranks), max(ranks))} - ranks)[:_SHOWN]:
            folder.missing(f"rng_state_{rank}.pth")


def _setting(folder: Folder, name: str) -> Any:
    """Return a value of the pickled `TrainingArguments`; None if they are unknown."""
    arguments = folder.files.get("training_args.bin")
    return None if arguments is None else arguments.values.get(name)
