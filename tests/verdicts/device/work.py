"""A run's work on the simulated device in addition to its `Plan`, and its loop's style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceWork:
    """A loop on the device; the seconds of forward and backward in its `Plan` are device time.

    Args:
        marked: the trainer marks its phases; otherwise it has three lines of stepwatch.
        loss_every: steps between two reads of the loss by `.item()`; 0 is never.
        microbatches: microbatches in a step; all but the last one run under `no_sync`.
        checkpointing: backward runs the forward of each block again.
        second_stream: a second stream prepares the next batch.
        captured: part of each step is a graph, captured in the third step.
        fsdp2: `fully_shard` instead of DistributedDataParallel.
        blocks: blocks of the model, each with one kernel in forward and one in backward.
        optimizer_seconds: device time of the optimizer.
        link_seconds: device time of each collective.
        depth: operations that the host may run ahead; the usual 256 are two or three steps.
        begin_apart_seconds: rank r begins to train r times this time after rank 0.
        launch_seconds: rank r needs r times this host time more for each forward.
        slow_factor: factor of all durations, on all devices alike.
        read_data: hooks watch the trainer's loader; always so if phases are marked.
        faults: faults of devices, by their name in `faults.DEVICE_FAULTS`, with their fields.
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
        """Return the faults as `name:key=value,...`, in the form of the host's faults."""
        return [
            f"{fault['name']}:" + ",".join(f"{k}={v}" for k, v in fault.items() if k != "name")
            for fault in self.faults
        ]
