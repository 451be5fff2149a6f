"""The face of the simulated device: `load()` registers "sim", `torch.sim` and "simccl"."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import backend_registration

from . import backend_module
from .build import MODULE, library
from .control import Control, Hang

NAME = "sim"
EXIT_SECONDS = 2.0
MOST_HELD_SECONDS = 60.0


@cache
def extension() -> Any:
    """Return the compiled module, built where it has to be.

    Raises:
        BuildError: there is no compiler, or the source does not compile.
    """
    spec = importlib.util.spec_from_file_location(MODULE, library())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def control() -> Control:
    """Return the settings of this process's device.

    `SIM_CONTROL` names their file, so that another process can change them; `{rank}` in it means
    `RANK`.
    """
    wanted = os.environ.get("SIM_CONTROL", "").replace("{rank}", os.environ.get("RANK", "0"))
    if wanted:
        settings = Control(Path(wanted))
        handle = os.open(wanted, os.O_RDWR)
    else:
        handle = os.memfd_create("simulated device")
        settings = Control(Path(f"/proc/self/fd/{handle}"))
    extension().attach(handle)
    return settings


def _apply_environment(environment: Mapping[str, str]) -> None:
    settings = control()
    if "SIM_OP_SECONDS" in environment:
        settings.set_default_seconds(float(environment["SIM_OP_SECONDS"]))
    if "SIM_SLOW" in environment:
        settings.set_slow(float(environment["SIM_SLOW"]))
    if "SIM_LINK_SECONDS" in environment or "SIM_LINK_BYTES_PER_SECOND" in environment:
        bytes_per_second = float(environment.get("SIM_LINK_BYTES_PER_SECOND", "inf"))
        settings.set_link(float(environment.get("SIM_LINK_SECONDS", "0")), bytes_per_second)
    if "SIM_DEPTH" in environment:
        settings.set_depth(int(environment["SIM_DEPTH"]))
    if "SIM_COSTS" in environment:
        set_costs(json.loads(environment["SIM_COSTS"]))


def _new_backend(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    return extension().Backend(gloo, rank, size)


def _let_the_device_finish() -> None:
    """Wait for the device: a worker that computes during the interpreter's end would crash. A hung
    device is abandoned.
    """
    end = time.monotonic() + EXIT_SECONDS
    if control().get("lost") or extension().in_bad_fork():
        return
    while not extension().idle() and time.monotonic() < end:
        time.sleep(0.01)


@cache
def load() -> None:
    """Register the device "sim", its module `torch.sim` and the process-group backend "simccl".

    They stay for the rest of the process. Settings come from the environment: `SIM_CONTROL`,
    `SIM_OP_SECONDS`, `SIM_COSTS` (JSON: seconds by operation), `SIM_SLOW`, `SIM_LINK_SECONDS`,
    `SIM_LINK_BYTES_PER_SECOND`, `SIM_DEPTH`.

    Raises:
        BuildError: there is no compiler, or the source does not compile.
    """
    native = extension()
    backend_registration.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, backend_module.build(native))  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    dist.Backend.register_backend("simccl", _new_backend, devices=[NAME])
    _apply_environment(os.environ)
    atexit.register(_let_the_device_finish)


def kernel(seconds: float) -> None:
    """Enqueue an operation of this device time on the current stream; it touches no tensor.

    The host is busy with it for 10 us, as with an operator of torch.
    """
    extension().kernel(seconds)


def set_costs(seconds: Mapping[str, float]) -> None:
    """State the device time of operations by name, without overload ("mm", "copy_").

    Others take `Control.set_default_seconds`.
    """
    extension().set_costs(dict(seconds))


def take_counts() -> dict[str, int]:
    """Return how often each operation was enqueued since the last call."""
    counts: dict[str, int] = extension().take_counts()
    return counts


def set_slow(factor: float) -> None:
    """See `Control.set_slow`."""
    control().set_slow(factor)


def set_default_seconds(seconds: float) -> None:
    """See `Control.set_default_seconds`."""
    control().set_default_seconds(seconds)


def set_link(seconds: float, bytes_per_second: float = float("inf")) -> None:
    """See `Control.set_link`."""
    control().set_link(seconds, bytes_per_second)


def set_depth(operations: int) -> None:
    """See `Control.set_depth`."""
    control().set_depth(operations)


def hang(kind: Hang = Hang.KERNEL) -> None:
    """See `Control.set_hang`."""
    control().set_hang(kind)


class Hold:
    """Holds the current stream, so that the host is ahead however slow it is.

    Operations enqueued in the block begin together at its end. A host that waits for the device in
    the block continues after `MOST_HELD_SECONDS`, and sets `host_waited`.
    """

    def __init__(self) -> None:
        self.host_waited = False
        self._limit = threading.Timer(MOST_HELD_SECONDS, self._release)

    def __enter__(self) -> Hold:
        hang(Hang.KERNEL)
        kernel(0.0)
        self._limit.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        hang(Hang.NONE)

    def _release(self) -> None:
        self.host_waited = True
        hang(Hang.NONE)


def lose() -> None:
    """See `Control.set_lost`."""
    control().set_lost()
