"""A run's history over all its attempts: rank 0 appends a line per step to a file."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepwatch.signals.durable import write_durably
from stepwatch.trainer.checkpoint.checkpointer import CheckpointResult
from stepwatch.trainer.step.evaluate import Evaluated

from .directory import HISTORY_NAME


@dataclass(frozen=True)
class StepLine:
    """One completed step: loss in nats, gradient norm before clipping, step time, Unix time."""

    step: int
    loss: float
    grad_norm: float
    rate: float
    seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class ResumeLine:
    """One resume: steps to train again, seconds without progress before it."""

    from_step: int
    steps_lost: int
    seconds: float


class History:
    """Appends lines to `history.jsonl`; each line is one write, so a kill loses no earlier line."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / HISTORY_NAME
        self.steps: list[StepLine] = []
        self.resumes: list[ResumeLine] = []
        self.checkpoints: list[dict[str, Any]] = []
        self.evaluations: list[Evaluated] = []
        self._read()
        self._file = self._path.open("ab", buffering=0)

    def _read(self) -> None:
        if not self._path.is_file():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                self._add(json.loads(line))
            except (ValueError, TypeError, AttributeError):
                break  # a full disk or a crash cut this line off; drop it and all later lines

    def _add(self, row: dict[str, Any]) -> None:
        if "from_step" in row:
            self.resumes.append(ResumeLine(**row))
        elif "verified" in row:
            self.checkpoints.append(row)
        elif "evaluated" in row:
            self.evaluations.append(Evaluated(**row))
        else:
            self.steps.append(StepLine(**row))

    def append(self, line: StepLine) -> None:
        """Add a completed step; on a full disk the file misses the line and no error is raised."""
        self.steps.append(line)
        self._write(asdict(line))

    def checkpoint(self, result: CheckpointResult) -> None:
        """Add a checkpoint that ended, verified or failed; the checkpoint thread may call this."""
        self.checkpoints.append(asdict(result))
        self._write(self.checkpoints[-1])

    def evaluation(self, result: Evaluated) -> None:
        """Add an evaluation that was completed."""
        self.evaluations.append(result)
        self._write(asdict(result))

    def resume(self, from_step: int, now: float | None = None) -> ResumeLine:
        """Drop the steps from `from_step` on, which are trained again, and add the resume."""
        now = time.time() if now is None else now
        retained = [line for line in self.steps if line.step < from_step]
        waited = now - self.steps[-1].wall_seconds if self.steps else 0.0
        line = ResumeLine(from_step, len(self.steps) - len(retained), max(0.0, waited))
        self.steps = retained
        self.resumes.append(line)
        self._rewrite()
        return line

    def restart(self) -> None:
        """Drop all lines: the run starts from step 0."""
        self.steps, self.resumes, self.checkpoints, self.evaluations = [], [], [], []
        self._rewrite()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rewrite(self) -> None:
        rows = [asdict(line) for line in self.resumes] + self.checkpoints
        rows += [asdict(line) for line in self.evaluations]
        rows += [asdict(line) for line in self.steps]
        write_durably(self._path, "".join(f"{json.dumps(row)}\n" for row in rows).encode())
        self._file.close()
        self._file = self._path.open("ab", buffering=0)

    def _write(self, row: dict[str, Any]) -> None:
        try:
            os.write(self._file.fileno(), json.dumps(row).encode() + b"\n")
        except OSError:
            return
