"""Strikes the faults of one rank at the points its trainer announces."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from typing import Any

from stepwatch.signals import places

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
            UsageError: a fault cannot be read.
        """
        environ = os.environ if environ is None else environ
        texts = filter(None, environ.get(places.ENV_FAULTS, "").split(SEPARATOR))
        faults = [fault for text in texts if (fault := parse_fault(text)) is not None]
        attempt = int(environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        return cls(faults, rank=rank, attempt=attempt)

    def at(self, point: str, step: int) -> None:
        """Strike what is due at this point of this step.

        Points: step, data, forward, backward, optimizer, collective, `checkpoint:<stage>`.
        """
        for fault in self._faults:
            due = fault.strikes(self._rank, self._attempt, step)
            if due and _point(fault) == point and fault not in self._spent:
                self._strike(fault)

    def transform(self, point: str, step: int, tensors: Iterable[Any]) -> None:
        """Corrupt the first of `tensors` in place if a fault says so; once per fault.

        Points: gradients, parameters.
        """
        for fault in self._faults:
            due = fault.strikes(self._rank, self._attempt, step)
            if due and fault.point == point and fault not in self._spent:
                self._spent.add(fault)
                _corrupt(fault, next(iter(tensors)))

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


def _point(fault: Fault) -> str:
    if isinstance(fault, Kill) and fault.stage:
        return f"checkpoint:{fault.stage}"
    return fault.point


def _corrupt(fault: Fault, tensor: Any) -> None:
    import torch

    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    with torch.no_grad():
        flat = local.view(-1)
        if isinstance(fault, NanGradients):
            flat[0] = float("nan")
        elif isinstance(fault, FlipBit):
            bits = flat[:1].view(torch.int32)
            bits ^= 1 << fault.bit
