"""Cases on the simulated device: each fault and each healthy run, for several seeds.

The seed chooses how the loop is written as well; half of the loops mark no phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from stepwatch.signals.names import Cause, FindingKind
from tests.verdicts.cases import ANY_RANK, Case, Draw, Made, Maker, cases_of, truth
from tests.verdicts.device.work import DeviceWork
from tests.verdicts.plan import Plan

LOOPS: dict[str, dict[str, Any]] = {
    "item-each-step": {},
    "item-each-tenth": {"loss_every": 10},
    "loss-never-read": {"loss_every": 0},
    "accumulation": {"microbatches": 4, "loss_every": 10},
    "checkpointing": {"checkpointing": True, "loss_every": 10},
    "second-stream": {"second_stream": True, "loss_every": 0},
    "captured": {"captured": True},
    "fsdp2": {"fsdp2": True, "loss_every": 10},
}
"""Ways to write the loop."""
FAULT_SEEDS = range(4)
HEALTHY_SEEDS = range(4)
HEALTHY_STEPS = 60


def device_plan(draw: Draw, *faults: str, loop: str = "", **work: Any) -> Plan:
    """A run of a loop on the device, of a drawn one unless `loop` names it."""
    how = LOOPS[loop or draw.one_of(list(LOOPS))]
    marked = draw.seed % 4 in (1, 2)
    device = DeviceWork(**{"marked": marked, **how, **work})
    return draw.plan(*faults, workload="device", device=device)


def on_device(draw: Draw, name: str, **fields: Any) -> dict[str, Any]:
    """A fault of the device at the drawn rank and step, or at the rank among `fields`."""
    return {"name": name, "rank": draw.rank, "step": draw.step, **fields}


def slow_clock(draw: Draw) -> Made:
    fault = on_device(draw, "slow-clock", factor=draw.between(1.5, 2.5))
    plan = device_plan(draw, faults=(fault,))
    return plan, truth(draw, FindingKind.STRAGGLER, "forward backward", Cause.SLOW_COMPUTE)


def slow_kernel(draw: Draw) -> Made:
    fault = on_device(draw, "slow-kernel", seconds=draw.between(0.06, 0.2))
    plan = device_plan(draw, loop=draw.one_of(["item-each-step", "loss-never-read"]))
    plan = replace(plan, device=replace(plan.device, faults=(fault,)))
    return plan, truth(draw, FindingKind.STRAGGLER, "forward", Cause.SLOW_COMPUTE)


def launch_bound(draw: Draw) -> Made:
    """The host of one rank is late in each step, by more than it runs ahead."""
    plan = device_plan(draw)
    seconds = draw.between(0.2, 0.35) / plan.device.microbatches
    plan = replace(plan, faults=(draw.fault("slow-compute", seconds=f"{seconds:.4f}"),))
    return plan, truth(draw, FindingKind.STRAGGLER, "forward", Cause.LAUNCH_BOUND)


def launch_pauses(draw: Draw) -> Made:
    """The host of one rank pauses now and then, as for a collection of garbage."""
    fault = draw.fault("slow-compute", seconds=draw.between(0.3, 0.5), every=3 + draw.seed % 3)
    plan = device_plan(draw, fault, loop="item-each-step")
    return plan, truth(draw, FindingKind.STRAGGLER, "forward", Cause.LAUNCH_BOUND)


def slow_data(draw: Draw) -> Made:
    fault = draw.fault("slow-data", seconds=draw.between(0.25, 0.4))
    plan = device_plan(draw, fault, read_data=True)
    kinds = (FindingKind.STRAGGLER, FindingKind.DATA_STALL)
    return plan, truth(draw, kinds, "data", Cause.SLOW_DATA)


def slow_loader(draw: Draw) -> Made:
    """Nobody watches the loader: what shows is a device that waits for its host between steps."""
    fault = draw.fault("slow-data", seconds=draw.between(0.25, 0.4))
    plan = device_plan(draw, fault, marked=False)
    return plan, truth(draw, FindingKind.STRAGGLER, "other", Cause.LAUNCH_BOUND)


def slow_link(draw: Draw) -> Made:
    fault = on_device(draw, "slow-link", seconds=draw.between(0.1, 0.3))
    plan = device_plan(draw, faults=(fault,))
    return plan, truth(draw, FindingKind.SLOW_COLLECTIVE, "", Cause.SLOW_TRANSFER, ANY_RANK)


def slow_links(draw: Draw) -> Made:
    """The links of all ranks."""
    seconds = draw.between(0.1, 0.3)
    faults = [on_device(draw, "slow-link", rank=r, seconds=seconds) for r in range(draw.world)]
    plan = device_plan(draw, faults=tuple(faults))
    return plan, truth(draw, FindingKind.SLOW_COLLECTIVE, "", Cause.SLOW_TRANSFER, ANY_RANK)


def stuck_kernel(draw: Draw) -> Made:
    phase = draw.one_of(["forward", "backward"])
    plan = device_plan(draw, faults=(on_device(draw, "stuck-kernel", phase=phase),))
    return plan, truth(draw, FindingKind.HANG, phase, Cause.DEVICE_STUCK)


def stuck_collective(draw: Draw) -> Made:
    """All devices wait in it; which one does not move data cannot be seen from their events."""
    plan = device_plan(draw, faults=(on_device(draw, "stuck-collective"),))
    return plan, truth(draw, FindingKind.HANG, "", Cause.DEVICE_STUCK, ANY_RANK)


def killed(draw: Draw) -> Made:
    plan = device_plan(draw, draw.fault("kill"))
    return plan, truth(draw, FindingKind.RANK_FAILED, "", Cause.PROCESS_GONE)


FAULTY: dict[str, Maker] = {
    "device-slow-clock": slow_clock,
    "device-slow-kernel": slow_kernel,
    "device-launch-bound": launch_bound,
    "device-launch-pauses": launch_pauses,
    "device-slow-data": slow_data,
    "device-slow-loader": slow_loader,
    "device-slow-link": slow_link,
    "device-slow-links": slow_links,
    "device-stuck-kernel": stuck_kernel,
    "device-stuck-collective": stuck_collective,
    "device-kill": killed,
}
"""Faults by name."""


def healthy(loop: str = "", **changed: Any) -> Maker:
    """Makes healthy runs of a loop; `changed` are fields of `Plan`."""

    def make(draw: Draw) -> Made:
        return replace(device_plan(draw, loop=loop), steps=HEALTHY_STEPS, **changed), None

    return make


def awkward(**drawn: Callable[[Draw], Any]) -> Maker:
    """Makes healthy runs of a drawn loop whose `drawn` fields of `DeviceWork` are not usual."""

    def make(draw: Draw) -> Made:
        work = {name: choose(draw) for name, choose in drawn.items()}
        return replace(device_plan(draw, **work), steps=HEALTHY_STEPS), None

    return make


def absorbed_pauses(draw: Draw) -> Made:
    """The host of one rank pauses now and then, but less than it runs ahead."""
    pauses = draw.fault("slow-compute", seconds=draw.between(0.06, 0.12), every=4 + draw.seed)
    plan = device_plan(draw, pauses, loop="loss-never-read")
    return replace(plan, steps=HEALTHY_STEPS), None


def evaluations(draw: Draw) -> Made:
    seconds = draw.between(0.6, 1.5)
    plan = device_plan(draw)
    return replace(plan, steps=HEALTHY_STEPS, eval_every=15, eval_seconds=seconds), None


def checkpoints(draw: Draw) -> Made:
    seconds = draw.between(0.2, 0.6)
    plan = device_plan(draw)
    return replace(plan, steps=HEALTHY_STEPS, checkpoint_every=12, checkpoint_seconds=seconds), None


def long_first_step(draw: Draw) -> Made:
    return replace(device_plan(draw), steps=50, first_seconds=draw.between(2, 4)), None


HEALTHY: dict[str, Maker] = {
    **{f"device-{name}": healthy(name) for name in LOOPS},
    "device-far-ahead": awkward(loss_every=lambda draw: 0, depth=lambda draw: 1024),
    "device-begin-apart": awkward(begin_apart_seconds=lambda draw: draw.between(0.1, 0.4)),
    "device-unequal-launch": awkward(
        loss_every=lambda draw: 0,
        microbatches=lambda draw: 1,
        launch_seconds=lambda draw: 0.06 / draw.world,
    ),
    "device-absorbed-pauses": absorbed_pauses,
    "device-slow-but-equal": awkward(slow_factor=lambda draw: draw.between(1.8, 2.5)),
    "device-evaluations": evaluations,
    "device-checkpoints": checkpoints,
    "device-long-first-step": long_first_step,
}
"""Healthy runs by name."""


def cases() -> Iterator[Case]:
    """All cases on the device."""
    return cases_of((FAULTY, FAULT_SEEDS), (HEALTHY, HEALTHY_SEEDS))
