"""A Weights & Biases run beside the trainer's, in the same group.

Only the process that owns a run may write its history, so this one is a run of its own. Offline, no
server says what was written: a file beside the offline runs does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import file_problem

from .sample import PREFIX, Note, Sample
from .target import Target, TargetError

SUFFIX = "-stepwatch"
_NOTES = f"{PREFIX}incident/"


class Wandb(Target):
    """Writes into RUN-stepwatch; `words` are ENTITY/PROJECT/RUN or PROJECT/RUN.

    WANDB_API_KEY, WANDB_BASE_URL, WANDB_MODE and WANDB_DIR apply.

    Raises:
        UsageError: `words` name no run.
        TargetError: the server does not answer.
    """

    def __init__(self, words: str) -> None:
        *entity, project, run = ["", *words.split("/")][-3:]
        if words.count("/") not in (1, 2) or not project or not run:
            raise UsageError(f"--to wandb:{words[:80]}: write wandb:ENTITY/PROJECT/RUN")
        folder = Path(os.environ.get("WANDB_DIR", "."))
        self._cursor = folder / f".stepwatch-{project}-{run}.json"
        self._state = _read(self._cursor)
        try:
            self._run: Any = wandb.init(
                entity="".join(entity) or None,
                project=project,
                id=f"{run}{SUFFIX}",
                name=f"{run} (stepwatch)",
                group=run,
                job_type="stepwatch",
                dir=str(folder),
                resume="allow",
            )
        except wandb.Error as error:
            raise TargetError.of("W&B", error) from error

    def newest_step(self) -> int:
        return max(int(self._state["step"]), int(self._run.step) - 1)

    def headlines(self) -> Mapping[str, str]:
        return dict(self._state["headlines"])

    def write(self, sample: Sample) -> None:
        # First the file: a kill in between loses one sample, and writes none twice.
        self._keep(step=sample.step)
        self._run.log(sample.values, step=sample.step)

    def note(self, note: Note) -> None:
        self._run.summary[_NOTES + note.incident] = note.text
        self._keep(headlines={**self._state["headlines"], note.incident: note.headline})

    def close(self) -> None:
        self._run.finish()

    def _keep(self, **changes: Any) -> None:
        self._state |= changes
        try:
            write_durably(self._cursor, json.dumps(self._state).encode())
        except OSError as error:
            raise TargetError(f"{self._cursor}: {file_problem(error)}") from error


def _read(path: Path) -> dict[str, Any]:
    """Return what was written, from a file; nothing without one.

    Raises:
        TargetError: the file cannot be read: what was written is unknown.
    """
    try:
        state = json.loads(path.read_text())
        return {"step": int(state["step"]), "headlines": dict(state["headlines"])}
    except FileNotFoundError:
        return {"step": -1, "headlines": {}}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TargetError(f"{path} is unreadable; remove it to write from here on") from error
