"""A rank's own diary of its run: the truth for comparison with stepwatch's recording."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.trainers.programs.plan import Plan


class Diary:
    """The diary of one rank in one run; it costs a trainer only a few list appends."""

    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan, self.rank = plan, rank
        self.forward_seconds = self.data_seconds = 0.0
        self._micro: list[str] = []
        self._step_losses: list[list[str]] = []
        self._tokens: list[int] = []
        self._step_ends: list[float] = []
        self._pauses: dict[str, list[tuple[float, float]]] = {"eval": [], "save": []}

    @property
    def steps(self) -> int:
        """Steps that are done, also before a resume."""
        return self.plan.resume_step + len(self._step_ends)

    def microbatch(self, loss: float) -> None:
        """A part of the running step had this loss."""
        self._micro.append(loss.hex())

    def note(self, **facts: Any) -> None:
        """Append facts about the current step, or another `step`, to the journal of the plan."""
        if self.plan.journal:
            with self.plan.journal_file(self.rank).open("a") as file:
                file.write(json.dumps({"step": self.steps, **facts}) + "\n")

    def evaluated(self, value: float) -> None:
        """Note the value of an evaluation after the step that ended last."""
        self.note(step=self.steps - 1, validation=value)

    def step(self, tokens: int) -> None:
        """Note the end of a step, and the tokens on which this rank trained in it."""
        self._step_losses.append(self._micro)
        self._micro = []
        self._tokens.append(tokens)
        self._step_ends.append(time.monotonic())

    @contextmanager
    def pause(self, kind: str) -> Iterator[None]:
        """Around an evaluation (`eval`) or a save (`save`)."""
        began = time.monotonic()
        yield
        self._pauses[kind].append((began, time.monotonic() - began))

    def write(self, parameters: Iterable[torch.Tensor], **program_facts: Any) -> None:
        """Write the diary; `program_facts` are further facts, such as the operations called."""
        digest = hashlib.sha256()
        for parameter in parameters:
            digest.update(parameter.detach().contiguous().numpy().tobytes())
        facts = {
            "rank": self.rank,
            "losses": self._step_losses,
            "tokens": self._tokens,
            "ended": self._step_ends,
            "eval": self._pauses["eval"],
            "save": self._pauses["save"],
            "forward_seconds": self.forward_seconds,
            "data_seconds": self.data_seconds,
            "digest": digest.hexdigest(),
            **program_facts,
        }
        self.plan.diary(self.rank).write_text(json.dumps(facts))
