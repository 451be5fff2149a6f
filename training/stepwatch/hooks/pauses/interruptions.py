"""Functions that interrupt training, in torch and in libraries that train with it.

Each function is found by the name that its own package uses, so that the trainer's way of importing
it does not matter: a class's method, or the function that the public one calls
(`serialize_file`). A function that a release lacks is left out.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from .save_paths import (
    PathOf,
    accelerate_folder,
    argument,
    deepspeed_folder,
    distributed,
    distributed_read,
    megatron_folder,
    trainer_folder,
)


class Interrupts(Enum):
    """The operation that training waits for."""

    SAVE = auto()
    SAVE_BESIDE = auto()
    """The call returns when the state is copied, with a future of the save."""
    LOAD = auto()
    READ = auto()
    """A load that is no pause: trainers read their data with the same function."""
    EVALUATION = auto()


class Interruption(NamedTuple):
    """A function: the module that defines it, the class if it is a method, and its name.

    `path` finds the path that a save wrote or a load read, None where it is no checkpoint to resume
    from. With `by_rank` each rank that saves has a path of its own; else all ranks save together.
    """

    interrupts: Interrupts
    module: str
    owner: str
    name: str
    path: PathOf | None = None
    by_rank: bool = False

    @property
    def is_load(self) -> bool:
        """Whether it reads files."""
        return self.interrupts in (Interrupts.LOAD, Interrupts.READ)

    @property
    def is_beside(self) -> bool:
        """Whether the files are written after the call returned."""
        return self.interrupts is Interrupts.SAVE_BESIDE


def _entries(
    interrupts: Interrupts,
    module: str,
    *names: str,
    path: PathOf | None = None,
    by_rank: bool = False,
) -> tuple[Interruption, ...]:
    """Return one entry for each name; a method's name has its class before a dot."""
    split = (name.rpartition(".") for name in names)
    return tuple(
        Interruption(interrupts, module, owner, name, path, by_rank) for owner, _, name in split
    )


_SAVE, _BESIDE, _LOAD = Interrupts.SAVE, Interrupts.SAVE_BESIDE, Interrupts.LOAD
_READ, _EVALUATION = Interrupts.READ, Interrupts.EVALUATION
_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
_DCP = "torch.distributed.checkpoint"
_FILE = argument("f", 1)
_TENSORS = argument("filename", 1)
_LOADED = argument("f", 0)

INTERRUPTIONS: tuple[Interruption, ...] = (
    *_entries(_SAVE, "torch", "save", path=_FILE, by_rank=True),
    *_entries(_SAVE, "torch.serialization", "save", path=_FILE, by_rank=True),
    *_entries(_READ, "torch", "load", path=_LOADED),
    *_entries(_READ, "torch.serialization", "load", path=_LOADED),
    *_entries(_SAVE, _DCP, "save", path=distributed),
    *_entries(_BESIDE, _DCP, "async_save", path=distributed),
    *_entries(_LOAD, _DCP, "load", path=distributed_read),
    *_entries(_SAVE, f"{_DCP}.state_dict_saver", "save", "_save_state_dict", path=distributed),
    *_entries(_BESIDE, f"{_DCP}.state_dict_saver", "async_save", path=distributed),
    *_entries(_LOAD, f"{_DCP}.state_dict_loader", "load", path=distributed_read),
    *_entries(_LOAD, f"{_DCP}.state_dict_loader", "_load_state_dict"),
    *_entries(
        *(_SAVE, "safetensors.torch", "save_file", "save_model", "serialize_file"),
        path=_TENSORS,
        by_rank=True,
    ),
    *_entries(_READ, "safetensors.torch", "load_file", path=argument("filename", 0)),
    *_entries(_SAVE, "transformers.modeling_utils", "PreTrainedModel.save_pretrained"),
    *_entries(_EVALUATION, "transformers.generation.utils", "GenerationMixin.generate"),
    *_entries(_SAVE, "transformers.trainer", "Trainer._save_checkpoint", path=trainer_folder),
    *_entries(_SAVE, "transformers.trainer", "Trainer.save_model"),
    *_entries(_EVALUATION, "transformers.trainer", "Trainer.evaluate", "Trainer.predict"),
    *_entries(_SAVE, "accelerate.accelerator", "Accelerator.save_state", path=accelerate_folder),
    *_entries(_SAVE, "accelerate.accelerator", "Accelerator.save_model"),
    *_entries(
        *(_LOAD, "accelerate.accelerator", "Accelerator.load_state"),
        path=argument("input_dir", 1),
    ),
    *_entries(
        *(_SAVE, "deepspeed.runtime.engine", "DeepSpeedEngine.save_checkpoint"),
        path=deepspeed_folder,
    ),
    *_entries(_LOAD, "deepspeed.runtime.engine", "DeepSpeedEngine.load_checkpoint"),
    *_entries(
        *(_SAVE, "megatron.training.training", "save_checkpoint_and_time"), path=megatron_folder
    ),
    *_entries(_EVALUATION, "megatron.training.training", "evaluate_and_print_results"),
    *_entries(_EVALUATION, "torchtitan.components.validate", "Validator.validate"),
    *(
        entry
        for package in _LIGHTNING
        for entry in (
            *_entries(
                *(_SAVE, f"{package}.trainer.trainer", "Trainer.save_checkpoint"),
                path=argument("filepath", 1),
            ),
            *_entries(_EVALUATION, f"{package}.loops.evaluation_loop", "_EvaluationLoop.run"),
            *_entries(_EVALUATION, f"{package}.loops.prediction_loop", "_PredictionLoop.run"),
        )
    ),
)
