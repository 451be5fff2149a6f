"""The path that a save wrote or a load read, from its call; the agent verifies saved files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from stepwatch.signals.records.pieces import MOST_PIECES, PIECE_BYTES

MOST_BYTES = PIECE_BYTES * MOST_PIECES - 16
"""The longest path in UTF-8. Each piece but the last may lose bytes at a character's boundary."""


class SaveCall(NamedTuple):
    """A finished call: its arguments, `self` of a method included, and its result."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None

    def argument(self, name: str, place: int) -> Any:
        """Return the argument with this name, or at this place; None without it."""
        return self.kwargs.get(name, self.args[place] if len(self.args) > place else None)


PathOf = Callable[[SaveCall], Any]


def argument(name: str, place: int) -> PathOf:
    """Return a function that finds the path in one argument."""
    return lambda call: call.argument(name, place)


def distributed(call: SaveCall) -> Any:
    """Return the path of a DCP save: its id, or that of its storage writer."""
    writer = call.kwargs.get("storage_writer")
    writer = call.args[1] if writer is None and len(call.args) > 1 else writer
    return call.kwargs.get("checkpoint_id") or getattr(writer, "path", None)


def distributed_read(call: SaveCall) -> Any:
    """Return the path of a DCP load: its id, or that of its storage reader."""
    reader = call.argument("storage_reader", 1)
    return call.kwargs.get("checkpoint_id") or getattr(reader, "path", None)


def trainer_folder(call: SaveCall) -> Any:
    """Return the folder that the Hugging Face Trainer saves into."""
    trainer = call.args[0]
    folder = trainer._get_output_dir(trial=call.argument("trial", 2))
    return os.path.join(folder, f"checkpoint-{trainer.state.global_step}")


def accelerate_folder(call: SaveCall) -> Any:
    """Return the folder of `Accelerator.save_state`, which may choose it."""
    return call.result or call.argument("output_dir", 1)


def deepspeed_folder(call: SaveCall) -> Any:
    """Return the folder of one step below DeepSpeed's folder."""
    tag = call.argument("tag", 2)
    tag = f"global_step{call.args[0].global_steps}" if tag is None else str(tag)
    return os.path.join(call.argument("save_dir", 1), tag)


def megatron_folder(call: SaveCall) -> Any:
    """Return the folder of one iteration below Megatron-LM's `--save`."""
    settings = sys.modules["megatron.training.global_vars"].get_args()
    return os.path.join(settings.save, f"iter_{call.argument('iteration', 0):07d}")


def plain_path(place: Any) -> str:
    """Return the absolute path of a file, a file object or a folder.

    It is empty for memory, a URL, and a path that is too long, unprintable or has a secret in it.
    """
    if not isinstance(place, str | os.PathLike):
        place = getattr(place, "name", None)
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "://" in text or not text.isprintable():
        return ""
    from stepwatch.signals.secrets.texts import without_secrets  # not loaded before a save

    path = os.path.abspath(text)
    is_short = len(path.encode("utf-8", "replace")) <= MOST_BYTES
    return path if is_short and without_secrets(path) == path else ""
