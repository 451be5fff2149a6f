"""Uninterrupted runs for comparison, each trained once."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any


class Straight:
    """Trains with given flags, or reads the losses of an earlier run with the same flags.

    The learning rate does not depend on `--steps` (the warm-up outlasts a run), so a run of few
    steps is the beginning of a longer one. Workers of pytest share the folder.
    """

    def __init__(self, folder: Path, make_trainer: Callable[[Path], Any]) -> None:
        self._folder = folder
        self._make_trainer = make_trainer

    def __call__(self, *flags: str) -> Any:
        """The run with these flags, `--steps N` among them, cut to N steps."""
        words = list(flags)
        position = words.index("--steps")
        steps = int(words[position + 1])
        name = re.sub(r"[^\w=]+", "-", "_".join(words[:position] + words[position + 2 :]))
        with _exclusive_lock(self._folder, name):
            finished = self._find_run(name, steps) or self._train(name, steps, *flags)
        return replace(finished, result={"losses": finished.losses[:steps]})

    def _find_run(self, name: str, steps: int) -> Any | None:
        for directory in self._folder.glob(f"{name}.*.steps"):
            if int(directory.suffixes[-2][1:]) >= steps:
                return self._make_trainer(directory).read_result(0, "")
        return None

    def _train(self, name: str, steps: int, *flags: str) -> Any:
        directory = self._folder / f"{name}.{steps}.steps"
        unfinished = self._folder / f"{name}.{steps}"
        unfinished.mkdir()
        self._make_trainer(unfinished).train_forked(*flags)
        unfinished.rename(directory)
        return self._make_trainer(directory).read_result(0, "")


@contextmanager
def _exclusive_lock(folder: Path, name: str) -> Iterator[None]:
    """Hold a lock for one name among all processes."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
