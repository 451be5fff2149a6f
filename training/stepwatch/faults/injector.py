"""Triggers one rank's faults at the points that its trainer announces."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from stepwatch.signals import places
from stepwatch.signals.errors import UsageError

from .specs import Fault, Kill, NanGradients, SkewedShard, StageImbalance, parse_fault
from .triggers import corrupt, first_with_elements, trigger

SEPARATOR = ";"
"""Separates the faults in STEPWATCH_FAULTS."""
F = TypeVar("F", bound=Fault)


class Injector:
    """Holds one rank's faults; if it has none, every call returns at once.

    Args:
        faults: the faults for all ranks and attempts.
        rank, attempt: this rank and its attempt.
        stage_ranks: ranks in the same pipeline stage, for faults that hit a whole stage.
        log: file that gets one JSON line when a fault first triggers: fault, rank, step and `at`,
            Unix seconds.
    """

    def __init__(
        self,
        faults: Iterable[Fault],
        *,
        rank: int,
        attempt: int,
        stage_ranks: Collection[int] = (),
        log: Path | None = None,
    ) -> None:
        self._rank = rank
        self._stage_ranks = stage_ranks
        self._faults = [
            fault for fault in faults if self._addressed(fault) and fault.attempt == attempt
        ]
        self._log = log
        self._grown_memory: list[bytearray] = []
        self._spent: set[Fault] = set()
        self._noted: set[Fault] = set()

    @classmethod
    def from_env(
        cls,
        *,
        rank: int,
        stage_ranks: Collection[int] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Injector:
        """Read STEPWATCH_FAULTS and the attempt from torchrun's environment.

        Raises:
            UsageError: a fault or the attempt cannot be read.
        """
        environ = os.environ if environ is None else environ
        texts = filter(None, environ.get(places.ENV_FAULTS, "").split(SEPARATOR))
        faults = [fault for text in texts if (fault := parse_fault(text)) is not None]
        log = environ.get(places.ENV_FAULT_LOG)
        return cls(
            faults,
            rank=rank,
            attempt=_attempt(environ),
            stage_ranks=stage_ranks,
            log=Path(log) if log else None,
        )

    def reach(self, point: str, step: int) -> None:
        """Trigger the faults that are due at this point in this step.

        Points: step, data, forward, backward, optimizer, collective (before it is entered),
        transfer (inside one), `checkpoint:<stage>`.
        """
        for fault in self._faults:
            if fault.active(step) and _point(fault) == point and fault not in self._spent:
                self._note(fault, step)
                if not trigger(fault, self._grown_memory):
                    self._spent.add(fault)

    def due(self, kind: type[F], step: int) -> F | None:
        """Return the fault of this kind that the trainer has to commit now, once; else None."""
        for fault in self._faults:
            if isinstance(fault, kind) and fault.active(step) and fault not in self._spent:
                self._note(fault, step)
                self._spent.add(fault)
                return fault
        return None

    def skew(self, step: int) -> float:
        """Return the factor by which this rank's samples exceed its peers' in this step."""
        for fault in self._faults:
            if isinstance(fault, SkewedShard) and fault.active(step):
                self._note(fault, step)
                return fault.ratio
        return 1.0

    def transform(self, point: str, step: int, tensors: Iterable[Any]) -> None:
        """Corrupt the first non-empty tensor in `tensors`, in place and once, if a fault is due.

        Points: parameters.
        """
        for fault in self._faults:
            if fault.active(step) and fault.point == point and fault not in self._spent:
                first = first_with_elements(tensors)
                if first is not None:
                    self._note(fault, step)
                    self._spent.add(fault)
                    corrupt(fault, first)

    def poison(self, module: Any, step: Callable[[], int]) -> None:
        """Trigger gradient faults in `module`, as its backward computes them.

        `step` returns the current step. The gradient is this rank's own: DDP and FSDP2 have not
        reduced it yet.
        """
        if not any(isinstance(fault, NanGradients) for fault in self._faults):
            return

        def before_forward(owner: Any, _inputs: object) -> None:
            # Not earlier: FSDP2 exposes the parameter that backward uses only in forward.
            fault = self.due(NanGradients, step()) if owner.training else None
            if fault is not None:
                _poison_once(next(owner.parameters(recurse=False)), fault)

        owners = (
            submodule
            for submodule in module.modules()
            if any(True for _ in _own_parameters(submodule))
        )
        next(owners).register_forward_pre_hook(before_forward)

    def _addressed(self, fault: Fault) -> bool:
        whole_stage = isinstance(fault, StageImbalance) and fault.rank in self._stage_ranks
        return fault.rank == self._rank or whole_stage

    def _note(self, fault: Fault, step: int) -> None:
        if self._log is None or fault in self._noted:
            return
        self._noted.add(fault)
        fact = {"fault": fault.name, "rank": self._rank, "step": step, "at": time.time()}
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(fact) + "\n")


def _attempt(environ: Mapping[str, str]) -> int:
    text = environ.get("TORCHELASTIC_RESTART_COUNT") or "0"
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"TORCHELASTIC_RESTART_COUNT={text!r} is not a whole number") from error


def _point(fault: Fault) -> str:
    if isinstance(fault, Kill) and fault.stage:
        return f"checkpoint:{fault.stage}"
    return fault.point


def _own_parameters(module: Any) -> Iterable[Any]:
    return (parameter for parameter in module.parameters(recurse=False) if parameter.requires_grad)


def _poison_once(parameter: Any, fault: Fault) -> None:
    def poisoned(gradient: Any) -> Any:
        handle.remove()
        changed = gradient.clone()
        first = first_with_elements([changed])
        if first is not None:
            corrupt(fault, first)
        return changed

    handle = parameter.register_hook(poisoned)
