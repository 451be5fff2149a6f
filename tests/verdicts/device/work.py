"""What a run on the simulated device does beside what `Plan` says, and how its loop is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceWork:
    """A loop on the device; the seconds of forward and backward in its `Plan` are device time.

    Args:
        marked: the trainer marks its phases; without, it has three lines of stepwatch.
        loss_every: steps between two reads of the loss by `.item()`; 0 is never.
        microbatches: of a step; all but the last one run under `no_sync`.
        checkpointing: forward of each block runs again in backward.
        second_stream: the next batch is prepared on a stream of its own.
        captured: part of each step is a graph, captured in the third step.
        fsdp2: `fully_shard` instead of DistributedDataParallel.
        blocks: of the model, each with one kernel in forward and one in backward.
        optimizer_seconds: of device time.
        link_seconds: of each collective.
        depth: operations that the host may run ahead; the usual 256 are two or three steps.
        begin_apart_seconds: rank r begins to train r times as long after rank 0.
        launch_seconds: of host time that rank r needs more for each forward, times r.
        slow_factor: how many times as long everything takes, on all devices alike.
        read_data: the trainer's loader is watched; always so where phases are marked.
        faults: of devices; `faults.DEVICE_FAULTS` by name, with their fields.
    """

    marked: bool = False
    loss_every: int = 1
    microbatches: int = 1
    checkpointing: bool = False
    second_stream: bool = False
    captured: bool = False
    fsdp2: bool = False
    blocks: int = 4
    optimizer_seconds: float = 0.008
    link_seconds: float = 0.004
    depth: int = 256
    begin_apart_seconds: float = 0.0
    launch_seconds: float = 0.0
    slow_factor: float = 1.0
    read_data: bool = False
    faults: tuple[dict[str, Any], ...] = ()

    def described_faults(self) -> list[str]:
        """The faults as `name:key=value,...`, in the form of those of hosts."""
        return [
            f"{fault['name']}:" + ",".join(f"{k}={v}" for k, v in fault.items() if k != "name")
            for fault in self.faults
        ]
