"""Strikes the faults of one rank at the points its trainer announces."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from typing import Any

from stepwatch.signals import places
from stepwatch.signals.errors import UsageError

from .specs import (
    Fault,
    FlipBit,
    Hang,
    Kill,
    NanGradients,
    SlowCompute,
    SlowData,
    Stop,
    parse_fault,
)

SEPARATOR = ";"
"""Between faults in STEPWATCH_FAULTS."""


class Injector:
    """Holds the faults of one rank; without any, every call returns at once."""

    def __init__(self, faults: Iterable[Fault], *, rank: int, attempt: int) -> None:
        self._faults = [
            fault for fault in faults if fault.rank == rank and fault.attempt == attempt
        ]
        self._rank = rank
        self._attempt = attempt
        self._spent: set[Fault] = set()

    @classmethod
    def from_env(cls, *, rank: int, environ: Mapping[str, str] | None = None) -> Injector:
        """Read STEPWATCH_FAULTS and the attempt from torchrun's environment.

        Raises:
            UsageError: a fault or the attempt cannot be read.
        """
        environ = os.environ if environ is None else environ
        texts = filter(None, environ.get(places.ENV_FAULTS, "").split(SEPARATOR))
        faults = [fault for text in texts if (fault := parse_fault(text)) is not None]
        return cls(faults, rank=rank, attempt=_attempt(environ))

    def at(self, point: str, step: int) -> None:
        """Strike what is due at this point of this step.

        Points: step, data, forward, backward, optimizer, collective, `checkpoint:<stage>`.
        """
        for fault in self._faults:
            due = fault.strikes(self._rank, self._attempt, step)
            if due and _point(fault) == point and fault not in self._spent:
                self._strike(fault)

    def transform(self, point: str, step: int, tensors: Iterable[Any]) -> None:
        """Corrupt the first of `tensors` that has elements, in place and once, if a fault says so.

        Points: gradients, parameters.
        """
        for fault in self._faults:
            due = fault.strikes(self._rank, self._attempt, step)
            if due and fault.point == point and fault not in self._spent:
                first = next((local for local in map(_local, tensors) if local.numel()), None)
                if first is not None:
                    self._spent.add(fault)
                    _corrupt(fault, first)

    def _strike(self, fault: Fault) -> None:
        if isinstance(fault, SlowCompute | SlowData):
            time.sleep(fault.seconds)
            return
        self._spent.add(fault)
        if isinstance(fault, Hang):
            time.sleep(fault.seconds)
        elif isinstance(fault, Stop):
            os.kill(os.getpid(), signal.SIGSTOP)
        elif isinstance(fault, Kill):
            os.kill(os.getpid(), signal.SIGKILL)


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


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _corrupt(fault: Fault, local: Any) -> None:
    import torch

    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    with torch.no_grad():
        first = local[(slice(0, 1),) * local.dim()]
        if isinstance(fault, NanGradients):
            first.fill_(float("nan"))
        elif isinstance(fault, FlipBit):
            width = 8 * local.element_size()
            bit = torch.ones((), dtype=integers[local.element_size()]) << fault.bit % width
            value = first.contiguous().view(bit.dtype) ^ bit.to(first.device)
            first.copy_(value.view(first.dtype))
