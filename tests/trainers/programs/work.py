"""The slow parts of these programs: a simulated device, evaluations, slow storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist

from tests.trainers.programs.diary import Diary
from tests.trainers.programs.plan import SLOW_LOADER, SLOW_RANK, Plan, read_plan


class Work:
    """Spends the time of one rank as its plan says."""

    def __init__(self, diary: Diary) -> None:
        self.diary, self.plan = diary, diary.plan
        self._slow = diary.rank == diary.plan.world - 1

    def inside(self, model: Any) -> None:
        """Let the device compute whenever `model` is called to train; a compiled graph breaks."""
        compiler: Any = torch.compiler
        forward = compiler.disable(self.forward)

        def on_forward(module: Any, _inputs: Any) -> None:
            if module.training:
                forward()

        model.register_forward_pre_hook(on_forward)

    def forward(self) -> None:
        """A device computes."""
        self.diary.forward_seconds += self._spend(SLOW_RANK, self.plan.forward_seconds)

    def data(self) -> None:
        """A loader reads; of another process its seconds are counted there."""
        self.diary.data_seconds += self._spend(SLOW_LOADER, self.plan.data_seconds)

    def evaluation(self, seconds: float) -> None:
        """Compute for `seconds`, a fifth of it on the host, which several runs share."""
        matrix, end = torch.eye(64), time.monotonic() + seconds
        with torch.no_grad():
            while time.monotonic() < end:
                began = time.monotonic()
                for _ in range(100):
                    matrix = matrix @ matrix
                time.sleep(4 * (time.monotonic() - began))

    def _spend(self, fault: str, seconds: float) -> float:
        if self._slow and self.plan.fault == fault and self.diary.steps >= self.plan.fault_step:
            if not self.plan.trigger_file.exists():
                self.plan.trigger_file.write_text(str(time.time()))
            seconds += self.plan.fault_seconds
        time.sleep(seconds)
        return seconds


class SlowStorage:
    """Makes writing a checkpoint take long, below the functions that trainers call for it.

    Saves that follow at once belong to the same checkpoint and are not slow again.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._next_slow_at = seconds, 0.0

    def install(self) -> None:
        """Slow down the functions by which `torch.save` and `safetensors.torch.save_file` write."""
        import torch.serialization as pickles

        self._slow_down(pickles, "_save")
        try:
            import safetensors.torch as tensors
        except ImportError:
            return
        self._slow_down(tensors, "serialize_file")

    def wait(self) -> None:
        """Take as long as the disk, once for each checkpoint."""
        if time.monotonic() >= self._next_slow_at:
            time.sleep(self._seconds)
            self._next_slow_at = time.monotonic() + 1.0

    def _slow_down(self, module: Any, name: str) -> None:
        inner = getattr(module, name)

        def slow(*args: Any, **kwargs: Any) -> Any:
            self.wait()
            return inner(*args, **kwargs)

        setattr(module, name, slow)


class WatchedLoop(Protocol):
    """A loop of one rank, its watch and its diary."""

    watch: Any
    diary: Diary

    def train(self) -> None:
        """All steps."""


def run_to_end(make: Callable[[Plan], WatchedLoop], model_of: Callable[[Any], Any]) -> None:
    """Train with slow storage, end the watch, write the diary, and leave the group.

    `model_of` returns the model of the loop that `make` returned.
    """
    plan = read_plan()
    torch.set_num_threads(1)
    SlowStorage(plan.pause_seconds).install()
    loop = make(plan)
    loop.train()
    loop.watch.finish()
    loop.watch.close()
    parameters = list(model_of(loop).parameters())
    size = sum(4 * parameter.numel() for parameter in parameters)
    loop.diary.write(parameters, ops=["all_reduce"], step_bytes=size)
    leave()


def leave() -> None:
    """Leave the process group, if there is one.

    Gloo's threads briefly hold the last call: a group that is destroyed in that time waits for them
    with the interpreter's lock, for which they wait (torch 2.13).
    """
    if dist.is_initialized():
        dist.barrier()
        time.sleep(0.3)
        dist.destroy_process_group()
