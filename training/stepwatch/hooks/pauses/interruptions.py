"""Functions that interrupt training, in torch and in libraries that train with it.

Each function is found by the name that its own package uses, so that the trainer's way of importing
it does not matter: a class's method, or the function that the public one calls
(`serialize_file`). A function that a release lacks is left out.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Interrupts(Enum):
    """The operation that training waits for."""

    SAVE = auto()
    SAVE_BESIDE = auto()
    """The call returns when the state is copied, with a future of the save."""
    LOAD = auto()
    EVALUATION = auto()


class Interruption(NamedTuple):
    """A function: the module that defines it, the class if it is a method, and its name."""

    interrupts: Interrupts
    module: str
    owner: str
    name: str


def _entries(interrupts: Interrupts, module: str, *names: str) -> tuple[Interruption, ...]:
    """Return one entry for each name; a method's name has its class before a dot."""
    split = (name.rpartition(".") for name in names)
    return tuple(Interruption(interrupts, module, owner, name) for owner, _, name in split)


_SAVE, _BESIDE, _LOAD = Interrupts.SAVE, Interrupts.SAVE_BESIDE, Interrupts.LOAD
_EVALUATION = Interrupts.EVALUATION
_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")

INTERRUPTIONS: tuple[Interruption, ...] = (
    *_entries(_SAVE, "torch", "save"),
    *_entries(_SAVE, "torch.serialization", "save"),
    *_entries(_SAVE, "torch.distributed.checkpoint", "save"),
    *_entries(_BESIDE, "torch.distributed.checkpoint", "async_save"),
    *_entries(_LOAD, "torch.distributed.checkpoint", "load"),
    *_entries(_SAVE, "torch.distributed.checkpoint.state_dict_saver", "save", "_save_state_dict"),
    *_entries(_BESIDE, "torch.distributed.checkpoint.state_dict_saver", "async_save"),
    *_entries(_LOAD, "torch.distributed.checkpoint.state_dict_loader", "load", "_load_state_dict"),
    *_entries(_SAVE, "safetensors.torch", "save_file", "save_model", "serialize_file"),
    *_entries(_SAVE, "transformers.modeling_utils", "PreTrainedModel.save_pretrained"),
    *_entries(_EVALUATION, "transformers.generation.utils", "GenerationMixin.generate"),
    *_entries(_SAVE, "transformers.trainer", "Trainer._save_checkpoint", "Trainer.save_model"),
    *_entries(_EVALUATION, "transformers.trainer", "Trainer.evaluate", "Trainer.predict"),
    *_entries(_SAVE, "accelerate.accelerator", "Accelerator.save_state", "Accelerator.save_model"),
    *_entries(_LOAD, "accelerate.accelerator", "Accelerator.load_state"),
    *_entries(_SAVE, "deepspeed.runtime.engine", "DeepSpeedEngine.save_checkpoint"),
    *_entries(_LOAD, "deepspeed.runtime.engine", "DeepSpeedEngine.load_checkpoint"),
    *_entries(_SAVE, "megatron.training.training", "save_checkpoint_and_time"),
    *_entries(_EVALUATION, "megatron.training.training", "evaluate_and_print_results"),
    *_entries(_EVALUATION, "torchtitan.components.validate", "Validator.validate"),
    *(
        entry
        for package in _LIGHTNING
        for entry in (
            *_entries(_SAVE, f"{package}.trainer.trainer", "Trainer.save_checkpoint"),
            *_entries(_EVALUATION, f"{package}.loops.evaluation_loop", "_EvaluationLoop.run"),
            *_entries(_EVALUATION, f"{package}.loops.prediction_loop", "_PredictionLoop.run"),
        )
    ),
)
